"""Runs every benchmark of this folder, one after the other.

    python -m benchmarks [--quick] [--peer-python NAME=PATH ...]
    python -m benchmarks --publish --peer-python aviary=PATH --peer-python inspect=PATH ... --before ../assay-206e2e3

Peers need environments of their own, so `--peer-python` is given once for each of them: `aviary`, `verifiers`,
`inspect`, `harbor`, `litellm`, `playwright`, `browsergym`, `ray` (with SeaweedFS). Without a name, one interpreter is
tried for every peer that is not named. `--before` names a checkout of an earlier version, which some scripts run, too.

`--publish` writes the pages: all results of one run on one commit replace those of `benchmarks/results`, and the tables
of the documents are made from them. It refuses a work tree with changes, and replaces nothing if a benchmark fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks._document import PAGES, with_tables
from benchmarks._measure import RESULTS

ROOT = Path(__file__).parent.parent
PUBLISHED = RESULTS.parent
PEERS = {
    "analysis": ("inspect",),
    "overhead": ("aviary", "verifiers", "inspect"),
    "attempt": ("harbor",),
    "store": ("inspect",),
    "place": (),
    "nodes": (),
    "cluster": ("ray",),
    "sandbox": (),
    "separation": (),
    "services": (),
    "gateway": ("verifiers", "litellm"),
    "coverage": (),
    "gate": (),
    "commands": (),
    "large_run": (),
    "long_attempt": (),
    "viewer": ("inspect",),
    "credit": (),
    "trainer": (),
    "worlds": (),
    "service_transports": (),
    "allocation": (),
    "improve": (),
    "browser": ("playwright", "browsergym"),
}
"""Script to the peers that it runs; their environments do not agree with each other."""
BESIDE_BEFORE = ("commands", "large_run")
"""Scripts that compare with an earlier version."""
UNPUBLISHED = ("gate", "improve")
"""A test with bounds of its own, and an experiment with a page of its own."""


def arguments_of(script: str, named: dict[str, str], *, quick: bool, before: Path | None = None) -> list[str]:
    """The arguments of a script: the interpreters of its own peers, the one without a name where theirs is not named,
    and the earlier version for those that compare with one."""
    told = ["--quick"] * quick
    if before is not None and script in BESIDE_BEFORE:
        told += ["--before", str(before)]
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


def current_commit() -> str:
    """Returns the commit of the work tree. Raises `SystemExit` if files that git tracks differ from it."""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    if changed:
        raise SystemExit(
            f"--publish measures a commit, and {len(changed.splitlines())} files differ from it: commit them"
        )
    return _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def publish(commit: str, measured: Path, results: Path = PUBLISHED, pages: Sequence[Path] = PAGES) -> None:
    """Replaces all results by those of one run, each with its commit, and makes the tables of the pages anew."""
    for old in results.glob("*.json"):
        old.unlink()
    for path in measured.glob("*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = {"commit": commit, **found}
        (results / path.name).write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    for page in pages:
        page.write_text(with_tables(page.read_text(encoding="utf-8"), results), encoding="utf-8")


def run_all(scripts: Sequence[str], told: dict[str, list[str]]) -> list[str]:
    """Runs scripts in turn and returns the names of those that failed."""
    failed = []
    for script in scripts:
        print(f"\n== {script}", flush=True)
        began = time.monotonic()
        argv = [sys.executable, "-m", f"benchmarks.{script}", *told[script]]
        if subprocess.run(argv, check=False, cwd=ROOT).returncode:
            failed.append(script)
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall ran")
    return failed


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
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="checkout of an earlier version")
    parser.add_argument(
        "--publish", action="store_true", help="replace the results in the documents by those of this run"
    )
    given = parser.parse_args()
    if given.publish and given.quick:
        parser.error("--publish and --quick: rough numbers are not published")
    if given.before is not None and not (given.before / "src/assay").is_dir():
        parser.error(f"--before {given.before}: this folder holds no checkout of Assay")
    named = interpreters(given.peer_python)
    scripts = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    told = {script: arguments_of(script, named, quick=given.quick, before=given.before) for script in scripts}
    if not given.publish:
        return 1 if run_all(scripts, told) else 0
    commit, kept = current_commit(), Path(tempfile.mkdtemp(prefix="assay-bench-"))
    scripts = [script for script in scripts if script not in UNPUBLISHED]
    failed = run_all(scripts, {script: [*told[script], "--into", str(kept)] for script in scripts})
    if failed:
        print(f"nothing was published; what was measured lies in {kept}")
        return 1
    publish(commit, kept)
    shutil.rmtree(kept)
    print(f"published: {len(scripts)} results of {commit[:12]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
