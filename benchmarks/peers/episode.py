"""What every runner is given: one task, one tool, ten scripted turns. Standard library alone, any Python from 3.11.

A peer's script is a program of its own, run by the peer's interpreter: `PYTHON SCRIPT ATTEMPTS AT_ONCE FOLDER`. It
prints one JSON object on its last line. CPU is the whole process's, from after the imports and a warm-up on, together
with children that it has waited for; memory is the highest the process ever had.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TURNS = 10
WARM_UP = 20
INSTRUCTION = (
    "There is a counter that starts at zero. Call the tool `add` to change it, one at a time, and stop when the "
    "counter stands at ten. Say in one short sentence what you do before each call."
)
SYSTEM = "You solve a task by calling tools. Your work is judged by the state that you leave, not by what you say."
SAID = "The counter is not at ten yet, so I add one to it."


class Given(NamedTuple):
    """The command line of a peer's script."""

    attempts: int
    at_once: int
    folder: Path


def given() -> Given:
    """Reads it."""
    attempts, at_once, folder = sys.argv[1:4]
    return Given(int(attempts), int(at_once), Path(folder))


def cpu_s() -> float:
    """CPU of this process and of its children that were waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_mib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bytes_below(folder: Path) -> int:
    """Sum of the sizes of all files."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def measure(version: str, run: Callable[[int, Path], int], more: dict[str, float] | None = None) -> None:
    """Warms up, runs, and prints what it cost.

    Args:
        version: Of the peer.
        run: Runs so many attempts, logging below a folder, and returns how many turns were taken in all.
        more: Further numbers to print, filled by `run`.
    """
    asked = given()
    asked.folder.mkdir(parents=True, exist_ok=True)
    run(WARM_UP, asked.folder / "warm-up")
    before = cpu_s()
    turns = run(asked.attempts, asked.folder / "measured")
    used = cpu_s() - before
    if turns != asked.attempts * TURNS:
        raise SystemExit(f"{turns} turns were taken and {asked.attempts * TURNS} expected")
    found: dict[str, Any] = {
        "version": version,
        "attempts": asked.attempts,
        "cpu_ms_per_turn": used * 1000 / turns,
        "peak_mib": peak_mib(),
        "bytes_per_attempt": bytes_below(asked.folder / "measured") / asked.attempts,
        **(more or {}),
    }
    print(json.dumps(found))
