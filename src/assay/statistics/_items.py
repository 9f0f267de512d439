"""Item statistics of each task: difficulty, discrimination and consistency.

Difficulty and discrimination are those of classical test theory (Lord and Novick 1968): the share that passes, and the
correlation of a task's result with the result on all other tasks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
import numpy as np

from ._rates import Interval, wilson
from ._summary import TaskCount

DifficultyBand = Literal["never", "hard", "middling", "easy", "always"]
HARD, EASY = 0.25, 0.75


class TaskProfile(msgspec.Struct, frozen=True):
    """One task, over all configurations."""

    task: str
    attempts: int
    """Judged ones."""
    rate: float
    interval: Interval
    band: DifficultyBand
    """`never` and `always` are exact; `hard` is below a quarter, `easy` above three."""
    configurations: int
    discrimination: float | None
    """Correlation of the configurations' rates here with their rates on all other tasks, in [-1, 1]; None for fewer
    than three configurations or without variance. A negative value suggests a faulty verifier."""
    mixed: int
    """Configurations with both passes and failures here: flaky if meant to be deterministic."""
    contrast: float
    """Mean over configurations of p (1 - p), at most 0.25: the training signal of a group of attempts."""


def profile_tasks(counts: Iterable[TaskCount]) -> tuple[TaskProfile, ...]:
    """Returns one profile for each judged task, by name."""
    by_task: dict[str, list[TaskCount]] = defaultdict(list)
    totals: dict[tuple[str, str | None], list[tuple[str, float]]] = defaultdict(list)
    for count in counts:
        if count.judged:
            by_task[count.task].append(count)
            totals[count.agent, count.model].append((count.task, count.passed / count.judged))
    sums = {who: (sum(rate for _, rate in rates), len(rates)) for who, rates in totals.items()}
    return tuple(_profile(task, by_task[task], sums) for task in sorted(by_task))


def _profile(task: str, counts: list[TaskCount], sums: dict[tuple[str, str | None], tuple[float, int]]) -> TaskProfile:
    passed, attempts = sum(c.passed for c in counts), sum(c.judged for c in counts)
    rate = passed / attempts
    rates = [c.passed / c.judged for c in counts]
    return TaskProfile(
        task=task,
        attempts=attempts,
        rate=rate,
        interval=wilson(passed, attempts),
        band=_band(passed, attempts),
        configurations=len(counts),
        discrimination=_discrimination(counts, sums),
        mixed=sum(0 < c.passed < c.judged for c in counts),
        contrast=float(np.mean([r * (1 - r) for r in rates])),
    )


def _band(passed: int, attempts: int) -> DifficultyBand:
    if passed == 0:
        return "never"
    if passed == attempts:
        return "always"
    rate = passed / attempts
    return "hard" if rate < HARD else "easy" if rate > EASY else "middling"


def _discrimination(counts: list[TaskCount], sums: dict[tuple[str, str | None], tuple[float, int]]) -> float | None:
    here, elsewhere = [], []
    for count in counts:
        total, tasks = sums[count.agent, count.model]
        if tasks > 1:
            own = count.passed / count.judged
            here.append(own)
            elsewhere.append((total - own) / (tasks - 1))
    if len(here) < 3 or np.std(here) < 1e-12 or np.std(elsewhere) < 1e-12:
        return None
    return float(np.corrcoef(here, elsewhere)[0, 1])


class Flake(msgspec.Struct, frozen=True):
    """One task with inconsistent results for one configuration."""

    task: str
    agent: str
    model: str | None
    passed: int
    judged: int
    rate: float
    interval: Interval
    """Wilson's, for this task alone."""
    verifier: int
    """Attempts whose stored state got another result on re-verification, or different ones."""


def find_flakes(
    counts: Iterable[TaskCount], unsteady: Mapping[tuple[str, str | None, str], int] | None = None
) -> tuple[Flake, ...]:
    """Returns the flakes, those of verifiers first, then those nearest to a rate of one half.

    `unsteady` maps (agent, model, task) to the number of attempts with inconsistent re-verification.
    """
    inconsistent = Counter(dict(unsteady or {}))
    found = []
    for count in counts:
        verifier = inconsistent[count.agent, count.model, count.task]
        if count.judged and (0 < count.passed < count.judged or verifier):
            rate, interval = count.passed / count.judged, wilson(count.passed, count.judged)
            found.append(
                Flake(count.task, count.agent, count.model, count.passed, count.judged, rate, interval, verifier)
            )
    return tuple(sorted(found, key=lambda f: (-f.verifier, abs(f.rate - 0.5), -f.judged, f.task, f.agent)))
