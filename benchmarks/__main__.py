"""Runs every benchmark of this folder, one after the other.

    python -m benchmarks [--quick] [--peer-python NAME=PATH ...]

Peers need environments of their own, so `--peer-python` is given once for each of them: `aviary`, `verifiers`,
`inspect`, `harbor`, `litellm`, `playwright`. Without a name, one interpreter is tried for every peer that is not named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PEERS = {
    "analysis": ("inspect",),
    "overhead": ("aviary", "verifiers", "inspect"),
    "attempt": ("harbor",),
    "store": ("inspect",),
    "place": (),
    "sandbox": (),
    "separation": (),
    "services": (),
    "gateway": ("verifiers", "litellm"),
    "coverage": (),
    "gate": (),
    "large_run": (),
    "long_attempt": (),
    "viewer": ("inspect",),
    "credit": (),
    "trainer": (),
    "worlds": (),
    "service_transports": (),
    "allocation": (),
    "improve": (),
    "browser": ("playwright",),
}
"""Script to the peers that it runs; their environments do not agree with each other."""


def arguments_of(script: str, named: dict[str, str], *, quick: bool) -> list[str]:
    """What a script is told: the interpreters of its own peers, the one without a name where theirs is not named."""
    told = ["--quick"] * quick
    for peer in PEERS.get(script, tuple(named)):
        if peer in named or "" in named:
            told += ["--peer-python", f"{peer}={named.get(peer) or named['']}"]
    return told


def interpreters(given: Sequence[str]) -> dict[str, str]:
    """Peer to its Python, "" for the one of all others. Raises `SystemExit` for an unknown peer or a missing file."""
    known = sorted({peer for peers in PEERS.values() for peer in peers})
    named = {}
    for pair in given:
        name, _, path = pair.rpartition("=")
        if name and name not in known:
            raise SystemExit(f"--peer-python {pair}: no peer is called {name!r}; there are {', '.join(known)}")
        if not Path(path).is_file():
            raise SystemExit(f"--peer-python {pair}: there is no Python at {path}")
        named[name] = path
    return named


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small size, for seeing that all of it runs")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="[NAME=]PATH",
        help="the Python of one peer; once for each",
    )
    given = parser.parse_args()
    named = interpreters(given.peer_python)
    failed = []
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        print(f"\n== {path.stem}", flush=True)
        argv = [sys.executable, "-m", f"benchmarks.{path.stem}", *arguments_of(path.stem, named, quick=given.quick)]
        if subprocess.run(argv, check=False, cwd=Path(__file__).parent.parent).returncode:
            failed.append(path.stem)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall ran")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
