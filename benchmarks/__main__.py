"""Runs every benchmark of this folder, one after the other: `python -m benchmarks [--quick] [--peer-python PATH]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small size, for seeing that all of it runs")
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="[NAME=]PATH", help="a Python that has a peer installed"
    )
    given = parser.parse_args()
    extra = ["--quick"] * given.quick
    extra += [word for path in given.peer_python for word in ("--peer-python", path)]
    failed = []
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        print(f"\n== {path.stem}", flush=True)
        argv = [sys.executable, "-m", f"benchmarks.{path.stem}", *extra]
        if subprocess.run(argv, check=False, cwd=Path(__file__).parent.parent).returncode:
            failed.append(path.stem)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall ran")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
