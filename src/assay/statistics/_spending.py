"""Resource use of attempts, cost of a pass, the Pareto front of both, and the share unsolved after so much of it.

All attempts are counted, including broken and unjudged ones. Where an amount is missing for some attempts of a
configuration, its total is a lower bound, its mean is that of the known ones, and the configuration is not on the
front.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec
import numpy as np

from ._clustered import student_quantile
from ._rates import Interval, mean_or_none, normal_quantile
from ._summary import AttemptOutcome, Estimate, count_by_task, estimate_pass_rate


class Amount(msgspec.Struct, frozen=True):
    """One measure over the attempts of one configuration."""

    measure: str
    known: int
    """Attempts with a recorded amount."""
    missing: int
    total: float
    """Over the known ones."""
    mean: Estimate
    """For one attempt: the mean over tasks of the task's own mean."""
    median: float
    most: float
    per_pass: float | None
    """Total over passes; None without a pass, or where an amount is missing."""
    on_front: bool
    """On the Pareto front of pass@1 and mean."""


class Spending(msgspec.Struct, frozen=True):
    """One agent with one model."""

    agent: str
    model: str | None
    attempts: int
    passed: int
    """Trusted passes."""
    pass_at_1: Estimate
    amounts: tuple[Amount, ...]
    """In the order of the given measures, without those that no attempt has."""


def amount_interval(task_means: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Returns Student's interval for the mean over tasks of non-negative amounts; None for fewer than two tasks."""
    normal_quantile(confidence)
    values = np.asarray(task_means, dtype=np.float64)
    n = len(values)
    if n < 2:
        return None
    half = student_quantile(n - 1, confidence) * float(values.std(ddof=1)) / math.sqrt(n)
    return Interval(max(0.0, float(values.mean()) - half), float(values.mean()) + half)


def summarise_spending(
    rows: Iterable[tuple[AttemptOutcome, Mapping[str, float]]], measures: Sequence[str], *, confidence: float = 0.95
) -> tuple[Spending, ...]:
    """Returns the resource use of each agent with each model, sorted, with its place on the fronts; measures in their
    order.

    Each row has amounts by measure; a missing one is unknown.

    Raises:
        ValueError: An attempt is given twice, or an amount is negative or not finite.
    """
    given = list(rows)
    groups: dict[tuple[str, str | None], list[tuple[AttemptOutcome, Mapping[str, float]]]] = defaultdict(list)
    for outcome, used in given:
        _require_amounts(outcome, used)
        groups[outcome.agent, outcome.model].append((outcome, used))
    found = []
    for who in sorted(groups, key=lambda key: (key[0], key[1] is not None, key[1] or "")):
        mine = groups[who]
        counts = count_by_task(outcome for outcome, _ in mine)
        passed = sum(count.passed for count in counts)
        amounts = [a for name in measures if (a := _amount(name, mine, passed, confidence)) is not None]
        found.append(Spending(*who, len(mine), passed, estimate_pass_rate(counts, confidence), tuple(amounts)))
    return _with_fronts(found, measures)


def _require_amounts(outcome: AttemptOutcome, used: Mapping[str, float]) -> None:
    for name, value in used.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(
                f"attempt {outcome.number} at task {outcome.task!r}: {name} is {value}, which is not an amount"
            )


def _amount(
    name: str, rows: Sequence[tuple[AttemptOutcome, Mapping[str, float]]], passed: int, confidence: float
) -> Amount | None:
    by_task: dict[str, list[float]] = defaultdict(list)
    for outcome, used in rows:
        if name in used:
            by_task[outcome.task].append(used[name])
    values = [value for task in sorted(by_task) for value in by_task[task]]
    if not values:
        return None
    task_means = [math.fsum(by_task[task]) / len(by_task[task]) for task in sorted(by_task)]
    interval = amount_interval(task_means, confidence)
    method = "Student over tasks" if interval is not None else "one task has no spread"
    low, high = interval if interval is not None else (None, None)
    missing, total = len(rows) - len(values), math.fsum(values)
    return Amount(
        measure=name,
        known=len(values),
        missing=missing,
        total=total,
        mean=Estimate(mean_or_none(task_means), low, high, method, len(values), len(task_means), confidence),
        median=median(values),
        most=max(values),
        per_pass=total / passed if passed and not missing else None,
        on_front=False,
    )


def _with_fronts(summaries: Sequence[Spending], measures: Sequence[str]) -> tuple[Spending, ...]:
    best: dict[str, set[int]] = {}
    for name in measures:
        best[name] = set(pareto_front([(_mean_of(one, name), one.pass_at_1.value) for one in summaries]))
    return tuple(
        msgspec.structs.replace(
            one,
            amounts=tuple(msgspec.structs.replace(a, on_front=place in best[a.measure]) for a in one.amounts),
        )
        for place, one in enumerate(summaries)
    )


def _mean_of(one: Spending, name: str) -> float | None:
    return next((a.mean.value for a in one.amounts if a.measure == name and not a.missing), None)


def pareto_front(points: Sequence[tuple[float | None, float | None]]) -> tuple[int, ...]:
    """Returns the positions of the (cost, value) points on the front, the cheapest first; never one with a None.

    A point is left out where another is at least as good in both and better in one; of equal points all are kept.
    """
    known = [(cost, -value, n) for n, (cost, value) in enumerate(points) if cost is not None and value is not None]
    found: list[int] = []
    best: tuple[float, float] | None = None
    for cost, loss, position in sorted(known):
        if best is None or loss < best[1] or (cost, loss) == best:
            found.append(position)
            best = (cost, loss)
    return tuple(found)


class SurvivalPoint(msgspec.Struct, frozen=True):
    """One step of a survival curve."""

    at: float
    share: float
    """Share not solved by then."""
    at_risk: int
    """Attempts still running just before."""


def survival_curve(lengths: Sequence[float], solved: Sequence[bool]) -> tuple[SurvivalPoint, ...]:
    """Returns the Kaplan-Meier curve (1958) of the time to a pass; attempts without one are censored at their end.

    Raises:
        ValueError: The columns differ in length, or a length is negative or NaN.
    """
    at, passed = np.asarray(lengths, dtype=np.float64), np.asarray(solved, dtype=bool)
    if at.shape != passed.shape or not bool(np.all(at >= 0)):
        raise ValueError("every attempt needs a length of at least 0 and whether it was solved")
    found, share = [SurvivalPoint(0.0, 1.0, len(at))], 1.0
    for time in np.unique(at[passed]):
        at_risk = int((at >= time).sum())
        share *= 1 - int((passed & (at == time)).sum()) / at_risk
        found.append(SurvivalPoint(float(time), share, at_risk))
    return tuple(found)
