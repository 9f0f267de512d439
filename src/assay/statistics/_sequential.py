"""Group-sequential exact permutation test of one treatment arm against control arms on the same tasks.

The unit is the task: if the treatment has no effect, every assignment of a task's pass counts to its arms is equally
likely, however much the attempts at one task resemble each other. The statistic is the treatment's passes minus a
control's, weighted by the inverse of the variance that their sum suggests, and added over the controls; it is computed
in the same way under every assignment, so the test stays exact. Against several controls it is nearly implied by the
tests against each of them.

Looks during the trial spend the level by Lan and DeMets (1983) with the O'Brien-Fleming-type function, and each
boundary is computed from the exact distribution of the sums that have not crossed before. Stopping without a rejection
at any look (for futility or harm) cannot raise the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WEIGHT_STEPS, _MOST_WEIGHT = 4, 16
"""Weights are whole numbers from 4 (a task that passes half the time) to 16, so that sums are whole numbers."""
_TOLERANCE = 1e-12


class TaskScore(NamedTuple):
    """A task's contribution to the statistic."""

    observed: int
    possible: tuple[int, ...]
    """Contributions under the assignments of counts to the treatment, one per arm, all equally likely."""


class SequentialLook(NamedTuple):
    """The result of one look."""

    p_value: float
    """One-sided, of all tasks so far as if there had been no earlier look."""
    crossed: bool
    """True if the boundary is crossed here or was at an earlier look."""
    spent: float
    """Level spent up to this look."""


def score_tasks(treatment: Sequence[int], controls: Sequence[Sequence[int]], attempts: int) -> list[TaskScore]:
    """Returns the score of each task.

    Args:
        treatment: Passes at each task.
        controls: Passes at the same tasks in each control arm.
        attempts: Attempts at each task in each arm.

    Raises:
        ValueError: The control is missing, the arms differ in length, or a count is not in [0, attempts].
    """
    arms = [treatment, *controls]
    if len(arms) < 2 or len({len(arm) for arm in arms}) != 1:
        raise ValueError("a comparison needs one control or more, with one count for each task of the treatment")
    if any(not 0 <= count <= attempts for arm in arms for count in arm):
        raise ValueError(f"passes are between 0 and the {attempts} attempts at a task")
    return [_score_task(counts, attempts) for counts in zip(*arms, strict=True)]


def _score_task(counts: Sequence[int], attempts: int) -> TaskScore:
    scores = tuple(sum(_score_pair(one, other, attempts) for other in counts) for one in counts)
    return TaskScore(scores[0], scores)


def _score_pair(one: int, other: int, attempts: int) -> int:
    rate = (one + other + 1) / (2 * attempts + 2)
    return min(_MOST_WEIGHT, round(_WEIGHT_STEPS / (4 * rate * (1 - rate)))) * (one - other)


def spending_function(level: float, fraction: float) -> float:
    """Returns the level spent at a fraction of the planned tasks: `2 - 2 Phi(z(1 - level / 2) / sqrt(fraction))`.

    Raises:
        ValueError: The level is not in (0, 1), or the fraction not in (0, 1].
    """
    if not 0 < level < 1 or not 0 < fraction <= 1:
        raise ValueError(f"a level is in (0, 1) and a fraction in (0, 1], got {level} and {fraction}")
    normal = NormalDist()
    return level if fraction == 1 else 2 - 2 * normal.cdf(normal.inv_cdf(1 - level / 2) / math.sqrt(fraction))


class SequentialTest:
    """One test over several looks; the chance that a treatment without effect ever crosses is at most `level`."""

    def __init__(self, level: float, planned: int) -> None:
        """Raises `ValueError` for a level outside (0, 1) or fewer than one planned task."""
        if not 0 < level < 1 or planned < 1:
            raise ValueError(f"a test needs a level in (0, 1) and a planned task, got {level} and {planned}")
        self._level, self._planned, self._seen = level, planned, 0
        self._all = _SumDistribution()
        self._open = _SumDistribution()
        self._sum, self._spent, self._crossed = 0, 0.0, False

    def look(self, scores: Sequence[TaskScore]) -> SequentialLook:
        """Adds the tasks since the last look, and tests all.

        Raises:
            ValueError: No task is new, or there are more than planned.
        """
        self._seen += len(scores)
        if not scores or self._seen > self._planned:
            raise ValueError(f"look at 1 to {self._planned} planned tasks, got {self._seen} with {len(scores)} new")
        for score in scores:
            self._all.add(score.possible)
            self._open.add(score.possible)
            self._sum += score.observed
        allowed = spending_function(self._level, self._seen / self._planned) - self._spent
        boundary = self._open.boundary(allowed)
        self._crossed = self._crossed or self._sum >= boundary
        self._spent += self._open.absorb(boundary)
        return SequentialLook(self._all.tail(self._sum), self._crossed, self._spent)


class _SumDistribution:
    """Distribution of a sum of independent whole numbers; mass that was absorbed is left out."""

    def __init__(self) -> None:
        self._lowest = 0
        self._mass: NDArray[np.float64] = np.ones(1)

    def add(self, values: Sequence[int]) -> None:
        """Adds a number that takes each of the values with equal chance."""
        low, width = min(values), max(values) - min(values)
        self._lowest += low
        if not width:
            return
        grown = np.zeros(len(self._mass) + width)
        for value in values:
            grown[value - low : value - low + len(self._mass)] += self._mass / len(values)
        self._mass = grown

    def tail(self, least: int) -> float:
        """Returns the chance of a sum of at least `least`."""
        return min(1.0, float(self._mass[max(0, least - self._lowest) :].sum()))

    def boundary(self, level: float) -> int:
        """Returns the smallest number that sums reach with a chance of at most `level`."""
        tails = np.cumsum(self._mass[::-1])[::-1]
        within = np.flatnonzero(tails <= level + _TOLERANCE)
        return self._lowest + (int(within[0]) if len(within) else len(tails))

    def absorb(self, least: int) -> float:
        """Takes sums of at least `least` out of the distribution; returns their chance."""
        start = min(len(self._mass), max(0, least - self._lowest))
        absorbed = float(self._mass[start:].sum())
        self._mass[start:] = 0.0
        return absorbed
