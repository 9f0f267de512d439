"""What attempts use up, what a pass costs, and which configurations nobody beats at once in both.

Money is spent on every attempt, also on those that broke or that nobody could judge, so all of them are counted here.
Where an amount was not recorded for all attempts of a configuration, its total is a lower bound, its mean is that of
those that are known, and the configuration is on no front: what is not known is not cheap.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec
import numpy as np

from ._clustered import student_quantile
from ._pareto import pareto_front
from ._rates import Interval, mean_of, normal_quantile
from ._summary import Estimate, Outcome, count_by_task, rate_over

__all__ = ["Amount", "Spending", "amount_interval", "spending"]


class Amount(msgspec.Struct, frozen=True):
    """One measure over the attempts of one configuration."""

    measure: str
    known: int
    """Attempts of which it was recorded."""
    missing: int
    total: float
    """Over those that are known."""
    mean: Estimate
    """For one attempt: the mean over tasks of the task's own mean."""
    median: float
    most: float
    per_pass: float | None
    """Total over passes; None without a pass, or where an attempt's amount is not known."""
    on_front: bool
    """No other configuration has both a higher pass@1 and a lower mean."""


class Spending(msgspec.Struct, frozen=True):
    """One agent with one model."""

    agent: str
    model: str | None
    attempts: int
    passed: int
    """Passes that nothing speaks against."""
    pass_at_1: Estimate
    amounts: tuple[Amount, ...]
    """In the order in which the measures were named; one that no attempt has is left out."""


def amount_interval(means: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's interval for the mean over tasks of amounts of at least 0; None for fewer than two tasks."""
    normal_quantile(confidence)
    values = np.asarray(means, dtype=np.float64)
    n = len(values)
    if n < 2:
        return None
    half = student_quantile(n - 1, confidence) * float(values.std(ddof=1)) / math.sqrt(n)
    return Interval(max(0.0, float(values.mean()) - half), float(values.mean()) + half)


def spending(
    rows: Iterable[tuple[Outcome, Mapping[str, float]]], measures: Sequence[str], *, confidence: float = 0.95
) -> tuple[Spending, ...]:
    """Returns what each agent with each model used, sorted; whether nobody beats it, among all that are given.

    Args:
        rows: Every attempt and what it used, by measure; one that is absent is not known.
        measures: Which, in which order.
        confidence: Of the intervals.

    Raises:
        ValueError: An attempt is given twice, or an amount is negative or no number.
    """
    given = list(rows)
    groups: dict[tuple[str, str | None], list[tuple[Outcome, Mapping[str, float]]]] = defaultdict(list)
    for outcome, used in given:
        _require_amounts(outcome, used)
        groups[outcome.agent, outcome.model].append((outcome, used))
    found = []
    for who in sorted(groups, key=lambda key: (key[0], key[1] is not None, key[1] or "")):
        mine = groups[who]
        counts = count_by_task(outcome for outcome, _ in mine)
        passed = sum(count.passed for count in counts)
        amounts = [a for name in measures if (a := _amount(name, mine, passed, confidence)) is not None]
        found.append(Spending(*who, len(mine), passed, rate_over(counts, confidence), tuple(amounts)))
    return _with_fronts(found, measures)


def _require_amounts(outcome: Outcome, used: Mapping[str, float]) -> None:
    for name, value in used.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"attempt {outcome.number} at task {outcome.task!r}: {name} is {value}, and no amount")


def _amount(
    name: str, rows: Sequence[tuple[Outcome, Mapping[str, float]]], passed: int, confidence: float
) -> Amount | None:
    by_task: dict[str, list[float]] = defaultdict(list)
    for outcome, used in rows:
        if name in used:
            by_task[outcome.task].append(used[name])
    values = [value for task in sorted(by_task) for value in by_task[task]]
    if not values:
        return None
    means = [math.fsum(by_task[task]) / len(by_task[task]) for task in sorted(by_task)]
    interval = amount_interval(means, confidence)
    method = "Student over tasks" if interval is not None else "one task has no spread"
    low, high = interval if interval is not None else (None, None)
    missing, total = len(rows) - len(values), math.fsum(values)
    return Amount(
        measure=name,
        known=len(values),
        missing=missing,
        total=total,
        mean=Estimate(mean_of(means), low, high, method, len(values), len(means), confidence),
        median=median(values),
        most=max(values),
        per_pass=total / passed if passed and not missing else None,
        on_front=False,
    )


def _with_fronts(found: Sequence[Spending], measures: Sequence[str]) -> tuple[Spending, ...]:
    best: dict[str, set[int]] = {}
    for name in measures:
        best[name] = set(pareto_front([(_mean_of(one, name), one.pass_at_1.value) for one in found]))
    return tuple(
        msgspec.structs.replace(
            one,
            amounts=tuple(msgspec.structs.replace(a, on_front=place in best[a.measure]) for a in one.amounts),
        )
        for place, one in enumerate(found)
    )


def _mean_of(one: Spending, name: str) -> float | None:
    return next((a.mean.value for a in one.amounts if a.measure == name and not a.missing), None)
