"""CPU time of `assay ls`, `stats` and `audit` on a run of 20,000 attempts, live and sealed.

    python -m benchmarks.large_run
    python -m benchmarks.large_run --before ../assay-206e2e3

Each command is a process of its own; imports are part of it. Of a sealed run the first call folds the rows from the
events, and later calls find them in the user's cache. `--before` names a checkout of an earlier version: its commands
are measured in turns with these, on a store that its own code makes, and the bars are ratios to it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import Report, Target, options

ATTEMPTS, QUICK_ATTEMPTS, ROUNDS = 20_000, 1_500, 3
COLUMNS = ("command", "run", "cpu_s", "before_cpu_s", "ratio")
HOW = "CPU seconds of the whole process and its children; medians of 3, audit once; in turns with the earlier version"
MOST = 0.5
"""Largest ratio to the earlier version."""
ROOT = Path(__file__).parents[1]
AUDIT = "audit"
COMMANDS = ("ls", "stats", AUDIT)
MAKE = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/src"]
from benchmarks.viewer import Size, make_store
from assay.store import seal
for name in ("live", "sealed"):
    make_store(Path(sys.argv[2], name), Size(int(sys.argv[3]), 5))
seal(Path(sys.argv[2], "sealed"), "many")
"""
RUN = """
import sys
sys.path.insert(0, sys.argv.pop(1) + "/src")
from assay.cli import main
sys.argv[0] = "assay"
main()
"""


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    parser = options("large_run", __doc__ or "")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="checkout of an earlier version")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="only this one; repeatable")
    asked = parser.parse_args(words)
    attempts, rounds = (QUICK_ATTEMPTS, 1) if asked.quick else (ATTEMPTS, ROUNDS)
    versions = {"cpu_s": ROOT} | ({} if asked.before is None else {"before_cpu_s": asked.before.resolve()})
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        scratch = Path(folder)
        for name, checkout in versions.items():
            (scratch / name).mkdir()
            subprocess.run(
                [sys.executable, "-c", MAKE, str(checkout), str(scratch / name), str(attempts)], cwd="/", check=True
            )
        rows = [
            _measure(versions, scratch, command, kind, 1 if command == AUDIT else rounds, first=first)
            for kind, first in (("live", False), ("sealed", True), ("sealed", False))
            for command in asked.command or COMMANDS
            if not (first and command == AUDIT)  # it reads every event in any case
        ]
    targets = [
        Target(f"{row['command']}, {row['run']}", "times before", MOST, row.get("ratio"))
        for row in rows
        if row["run"] != "sealed, first call"
    ]
    missing = {} if asked.before is not None else {"ratios": "no earlier version: --before FOLDER"}
    Report("large_run", f"{HOW}; {attempts:,} attempts", rows, targets, missing).finish(COLUMNS, asked.into)


def _measure(
    versions: dict[str, Path], scratch: Path, command: str, kind: str, rounds: int, *, first: bool
) -> dict[str, Any]:
    """Measures one command; for a `first` call the cache is empty each time."""
    found: dict[str, list[float]] = {name: [] for name in versions}
    for number in range(rounds):
        for name, checkout in versions.items():
            cache = scratch / f"cache-{number if first else 'kept'}-{command if first else ''}"
            found[name].append(_cpu_s(checkout, scratch / name / kind, cache, command))
    row: dict[str, Any] = {name: statistics.median(values) for name, values in found.items()}
    if "before_cpu_s" in row:
        row["ratio"] = row["cpu_s"] / row["before_cpu_s"]
    which = "sealed, first call" if first else "sealed, later calls" if kind == "sealed" else kind
    return {"command": command, "run": which, **row}


def _cpu_s(checkout: Path, store: Path, cache: Path, command: str) -> float:
    words = [sys.executable, "-c", RUN, str(checkout), command, "many", "--store", str(store)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd="/", capture_output=True, env={**os.environ, "ASSAY_CACHE": str(cache)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):  # 1: the audit found something
        raise SystemExit(f"assay {command} of {checkout} failed: {done.stderr.decode()[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
