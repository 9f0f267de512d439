"""Admits the fresh verifiers with the default battery, prints a table and writes `fresh/results.json`.

    python -m tests.holes [OUT]

Takes about ten minutes on two free cores. What was measured so far is written after every few tasks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .fresh_verifiers import RESULTS, Measured, admit_folders, folders_of

CHUNK = 4


def measure(folders: Sequence[Path], out: Path) -> None:
    """Admits tasks and writes what was found, with the commit."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    found: list[Measured] = []
    for first in range(0, len(folders), CHUNK):
        with tempfile.TemporaryDirectory() as store:
            found += admit_folders(folders[first : first + CHUNK], Path(store), "--concurrency", "4").values()
        rows = [msgspec.to_builtins(one) for one in found]
        out.write_text(json.dumps({"commit": commit, "verifiers": rows}, indent=1) + "\n")
        for one in found[first:]:
            line = f"{one.task:24} {one.result:8} {one.attempts:3} attempts  {', '.join(one.weak)}"
            sys.stdout.write(f"{line.rstrip()}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.holes", description="Admits holed and sound verifiers.")
    parser.add_argument("out", nargs="?", type=Path, default=RESULTS, help="the result, a JSON file")
    measure([*folders_of("holed"), *folders_of("sound")], parser.parse_args().out)
