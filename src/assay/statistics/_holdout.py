"""Budget of error of a holdout: how much of its level each use may spend, and what is left.

A holdout that is used to decide about one candidate after the other ends in accepting a worthless one. Each use spends
its level; by the union bound the chance of accepting any worthless candidate on these tasks is at most the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

HOLDOUT_LEVEL = 0.05
"""Total level of a task over all decisions that it takes part in."""
_LEAST_GRANT = 1e-4


class HoldoutExhaustedError(ValueError):
    """No level is left for another decision on these tasks."""


class LevelGrant(msgspec.Struct, frozen=True):
    """The level that a decision may use."""

    alpha: float
    left: float
    """Level left after this use."""


def spent_levels(uses: Iterable[tuple[Iterable[str], float]]) -> dict[str, float]:
    """Returns the level spent on each task; each use is its tasks and its level."""
    spent: dict[str, float] = {}
    for tasks, alpha in uses:
        for task in tasks:
            spent[task] = spent.get(task, 0.0) + alpha
    return spent


def grant_level(
    tasks: Iterable[str], spent: Mapping[str, float], requested: float, total: float = HOLDOUT_LEVEL
) -> LevelGrant:
    """Returns the requested level, or what is left for the most used of the tasks.

    Raises:
        ValueError: A level is not in (0, 1), or no task is given.
        HoldoutExhaustedError: Nothing is left.
    """
    if not (0 < requested < 1 and 0 < total < 1):
        raise ValueError(f"a level is between 0 and 1, got {requested} of {total}")
    used = [spent.get(task, 0.0) for task in tasks]
    if not used:
        raise ValueError("a holdout needs at least one task")
    left = total - max(used)
    if left < _LEAST_GRANT:
        raise HoldoutExhaustedError(f"the level {total} of these tasks is spent")
    alpha = min(requested, left)
    return LevelGrant(alpha, left - alpha)
