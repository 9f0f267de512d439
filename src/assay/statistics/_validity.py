"""Predictive validity of rankings from counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ._ranking import RankAgreement, rank_agreement
from ._summary import TaskCount


def split_halves(counts: Iterable[TaskCount]) -> tuple[tuple[TaskCount, ...], tuple[TaskCount, ...]]:
    """Splits tasks into alternating halves by name: in-sample and out-of-sample."""
    given = list(counts)
    first = set(sorted({count.task for count in given})[::2])
    return tuple(c for c in given if c.task in first), tuple(c for c in given if c.task not in first)


def predictive_validity(
    inside: Iterable[TaskCount], outside: Iterable[TaskCount], *, confidence: float = 0.95, seed: int = 0
) -> RankAgreement:
    """Computes the rank agreement of the configurations (agent with model) of both sides.

    Uses only tasks at which all of them were judged; without such a task on a side, or with fewer than three
    configurations, there is no value.
    """
    sides = [_rates(inside), _rates(outside)]
    shared = sorted(sides[0].keys() & sides[1].keys(), key=repr)
    columns = []
    for side in sides:
        tasks = sorted(set.intersection(*(set(side[who]) for who in shared))) if shared else []
        columns.append({repr(who): [side[who][task] for task in tasks] for who in shared})
    if not all(all(column.values()) for column in columns):
        return RankAgreement(None, None, len(shared))
    return rank_agreement(*columns, confidence=confidence, seed=seed)


def _rates(counts: Iterable[TaskCount]) -> dict[tuple[str, str | None], dict[str, float]]:
    found: dict[tuple[str, str | None], dict[str, float]] = defaultdict(dict)
    for count in counts:
        if count.judged:
            found[count.agent, count.model][count.task] = count.passed / count.judged
    return found
