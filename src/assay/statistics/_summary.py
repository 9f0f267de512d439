"""From rows of outcomes to what is said about an agent.

Invariant: an attempt that was not judged (`unknown`, `error`) is in no rate, neither as a pass nor as a fail. It is
counted, and `Bounds` say what the rate would be had all such attempts failed, or all passed. A pass that is doubtful is
counted apart, and in every rate as no pass.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from assay.records import Separation, VerdictStatus
from assay.verdicts import SEPARATIONS

from ._clustered import clustering, hierarchical_bootstrap, mean_interval
from ._rates import normal_quantile, pass_at_k, pass_hat_k, wilson

__all__ = [
    "AtK",
    "Bounds",
    "Estimate",
    "GroupSummary",
    "Outcome",
    "TaskCount",
    "count_by_task",
    "rate_over",
    "reach_over",
    "summarise",
]

_STATUSES = ("pass", "fail", "unknown", "error")
_CLUSTERED = "Wilson at the task-clustered effective n"


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt's outcome."""

    task: str
    agent: str
    model: str | None
    number: int
    """Which attempt at this task by this agent; retries of one attempt are one row."""
    status: VerdictStatus
    """`unknown` also for an attempt that has no verdict, `error` for one that broke."""
    score: float | None = None
    """In [0, 1], or None where there is none."""
    doubtful: bool = False
    """A pass that is not believed (`assay.verdicts.Trust`)."""
    separation: Separation = "unknown"
    """Grade of the outcome."""


class Estimate(msgspec.Struct, frozen=True):
    """A number and its interval; None where there is nothing to estimate from."""

    value: float | None
    low: float | None
    high: float | None
    method: str
    """How the interval was made, or why there is none."""
    n: int
    """Attempts behind it."""
    n_tasks: int
    confidence: float = 0.95


class Bounds(msgspec.Struct, frozen=True):
    """What the value would be had every attempt that was not judged failed (`worst`), or passed (`best`)."""

    worst: float | None
    best: float | None


class AtK(msgspec.Struct, frozen=True):
    """pass@k (at least one of k passes) and pass^k (all k pass), over the tasks with at least k judged attempts."""

    k: int
    pass_at_k: Estimate
    pass_at_k_bounds: Bounds
    pass_hat_k: Estimate
    pass_hat_k_bounds: Bounds


class GroupSummary(msgspec.Struct, frozen=True):
    """What is known of one agent with one model. Rates are means over tasks of the task's own rate."""

    agent: str
    model: str | None
    n_tasks: int
    n_tasks_judged: int
    """Tasks with at least one attempt that passed or failed."""
    n_attempts: int
    passed: int
    """Passes that nothing speaks against."""
    failed: int
    unknown: int
    error: int
    pass_at_1: Estimate
    """The one to quote: its interval knows that attempts at one task resemble each other. A doubtful pass is none."""
    pass_at_1_bounds: Bounds
    pass_at_1_wilson: Estimate
    """As if attempts were independent; right where every task has one attempt, too narrow otherwise."""
    pass_at_1_bootstrap: Estimate
    """Hierarchical bootstrap, tasks and then attempts; wide, and empty where all tasks agree."""
    mean_score: Estimate
    """Over judged attempts that have a score."""
    at_k: tuple[AtK, ...]
    icc: float | None
    """Intra-task correlation of passing; None where it cannot be known."""
    design_effect: float | None
    effective_n: float | None
    doubtful: int = 0
    """Passes that lack integrity, or did not hold when they were judged again: counted apart, and in no rate as a pass,
    nor left out of it, so that nobody gains by one."""
    pass_at_1_claimed: Estimate | None = None
    """Pass@1 as it was first judged, doubtful passes included; None where there are none."""
    separations: dict[Separation, int] = {}
    """Number of `passed` by grade of separation, strongest first."""


class TaskCount(msgspec.Struct, frozen=True):
    """One task's attempts by one agent with one model, counted."""

    agent: str
    model: str | None
    task: str
    passed: int
    failed: int
    unknown: int
    error: int
    doubtful: int = 0
    """Passes that count as none."""

    @property
    def judged(self) -> int:
        """Attempts that passed or failed, doubtful passes among them."""
        return self.passed + self.failed + self.doubtful

    @property
    def attempts(self) -> int:
        """All attempts."""
        return self.judged + self.unknown + self.error


class _Draw(NamedTuple):
    """What every estimate of one summary shares."""

    confidence: float
    seed: int


def count_by_task(rows: Iterable[Outcome]) -> tuple[TaskCount, ...]:
    """Counts, sorted by agent, model and task.

    Raises:
        ValueError: An attempt is given twice.
    """
    counts: dict[tuple[str, str | None, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in _checked(rows):
        counts[row.agent, row.model, row.task]["doubtful" if row.doubtful else row.status] += 1
    found = [
        TaskCount(agent, model, task, c["pass"], c["fail"], c["unknown"], c["error"], c["doubtful"])
        for (agent, model, task), c in counts.items()
    ]
    return tuple(sorted(found, key=lambda count: (count.agent, count.model or "", count.task)))


def rate_over(counts: Iterable[TaskCount], confidence: float = 0.95) -> Estimate:
    """Pass@1 over tasks, each given once; its interval knows that attempts at one task resemble each other."""
    normal_quantile(confidence)
    return _rate([count for count in counts if count.judged], _Draw(confidence, 0))


def reach_over(counts: Iterable[TaskCount], k: int, confidence: float = 0.95) -> AtK:
    """pass@k and pass^k over tasks, each given once."""
    normal_quantile(confidence)
    return _at_k(list(counts), k, _Draw(confidence, 0))


def _checked(rows: Iterable[Outcome]) -> list[Outcome]:
    seen: set[tuple[str, str, str | None, int]] = set()
    found = list(rows)
    for row in found:
        key = (row.task, row.agent, row.model, row.number)
        if key in seen:
            raise ValueError(
                f"attempt {row.number} at task {row.task!r} by {row.agent!r} is given twice: one row an attempt"
            )
        seen.add(key)
        if row.status not in _STATUSES:
            raise ValueError(
                f"attempt {row.number} at task {row.task!r}: status is one of {_STATUSES}, got {row.status!r}"
            )
        if row.doubtful and row.status != "pass":
            raise ValueError(
                f"attempt {row.number} at task {row.task!r}: only a pass can be doubtful, not {row.status!r}"
            )
        if row.score is not None and not (math.isfinite(row.score) and 0 <= row.score <= 1):
            raise ValueError(f"attempt {row.number} at task {row.task!r}: a score is in [0, 1], got {row.score}")
    return found


def summarise(
    rows: Iterable[Outcome], *, ks: Sequence[int] = (1, 2, 4), confidence: float = 0.95, seed: int = 0
) -> tuple[GroupSummary, ...]:
    """Summaries by agent and model, sorted; the order of the rows does not matter.

    Args:
        rows: One a attempt.
        ks: For which k pass@k and pass^k are given.
        confidence: Of all intervals.
        seed: Of the bootstrap.

    Raises:
        ValueError: An attempt is given twice, a score is outside [0, 1], k is below 1, or confidence is no probability.
    """
    normal_quantile(confidence)
    if any(k < 1 for k in ks):
        raise ValueError(f"every k must be at least 1, got {list(ks)}")
    groups: dict[tuple[str, str | None], list[Outcome]] = defaultdict(list)
    for row in _checked(rows):
        groups[row.agent, row.model].append(row)
    ordered = sorted(groups, key=lambda key: (key[0], key[1] is not None, key[1] or ""))
    return tuple(_summary(groups[key], ks, _Draw(confidence, seed)) for key in ordered)


def _summary(rows: list[Outcome], ks: Sequence[int], draw: _Draw) -> GroupSummary:
    counts = count_by_task(rows)
    judged = [count for count in counts if count.judged]
    columns = [[1.0] * count.passed + [0.0] * (count.judged - count.passed) for count in judged]
    known = clustering(columns)
    return GroupSummary(
        agent=rows[0].agent,
        model=rows[0].model,
        n_tasks=len(counts),
        n_tasks_judged=len(judged),
        n_attempts=len(rows),
        passed=sum(count.passed for count in counts),
        failed=sum(count.failed for count in counts),
        unknown=sum(count.unknown for count in counts),
        error=sum(count.error for count in counts),
        pass_at_1=_rate(judged, draw),
        pass_at_1_bounds=_bounds(counts, 1, hat=False),
        pass_at_1_wilson=_independent(judged, draw),
        pass_at_1_bootstrap=_bootstrapped(columns, draw),
        mean_score=_mean_score(rows, draw),
        at_k=tuple(_at_k(counts, k, draw) for k in ks),
        icc=known.icc,
        design_effect=known.design_effect,
        effective_n=known.effective_n,
        doubtful=sum(count.doubtful for count in counts),
        pass_at_1_claimed=_claimed(judged, draw),
        separations=_separations(rows),
    )


def _separations(rows: Sequence[Outcome]) -> dict[Separation, int]:
    counts = Counter(row.separation for row in rows if row.status == "pass" and not row.doubtful)
    return {grade: counts[grade] for grade in SEPARATIONS if counts[grade]}


def _claimed(judged: Sequence[TaskCount], draw: _Draw) -> Estimate | None:
    """Pass@1 with doubtful passes as passes."""
    if not any(count.doubtful for count in judged):
        return None
    replace = msgspec.structs.replace
    return _rate([replace(count, passed=count.passed + count.doubtful, doubtful=0) for count in judged], draw)


def _rate(judged: Sequence[TaskCount], draw: _Draw) -> Estimate:
    if len(judged) == 1:
        only = judged[0]
        interval = wilson(only.passed, only.judged, draw.confidence)
        value, method = only.passed / only.judged, "Wilson, for this one task alone"
        return Estimate(value, *interval, method, only.judged, 1, draw.confidence)
    means = [count.passed / count.judged for count in judged]
    return _over_tasks(means, sum(count.judged for count in judged), draw, capped=True)


def _over_tasks(means: Sequence[float], attempts: int, draw: _Draw, *, capped: bool) -> Estimate:
    """The mean over tasks, with its clustered interval."""
    tasks = len(means)
    if not tasks:
        return Estimate(None, None, None, "nothing was judged", 0, 0, draw.confidence)
    value = math.fsum(means) / tasks
    interval = mean_interval(means, draw.confidence, most=attempts if capped else None)
    if interval is None:
        return Estimate(value, None, None, "one task has no spread", attempts, tasks, draw.confidence)
    return Estimate(value, *interval, _CLUSTERED, attempts, tasks, draw.confidence)


def _independent(judged: Sequence[TaskCount], draw: _Draw) -> Estimate:
    passed, attempts = sum(c.passed for c in judged), sum(c.judged for c in judged)
    if not attempts:
        return Estimate(None, None, None, "nothing was judged", 0, 0, draw.confidence)
    interval = wilson(passed, attempts, draw.confidence)
    method = "Wilson over attempts as if independent"
    return Estimate(passed / attempts, *interval, method, attempts, len(judged), draw.confidence)


def _bootstrapped(columns: list[list[float]], draw: _Draw) -> Estimate:
    tasks, attempts = len(columns), sum(map(len, columns))
    value = math.fsum(math.fsum(column) / len(column) for column in columns) / tasks if tasks else None
    interval = hierarchical_bootstrap(columns, draw.confidence, seed=draw.seed)
    if interval is None:
        method = "nothing was judged" if value is None else "one task has no spread"
        return Estimate(value, None, None, method, attempts, tasks, draw.confidence)
    return Estimate(value, *interval, "hierarchical bootstrap", attempts, tasks, draw.confidence)


def _mean_score(rows: Sequence[Outcome], draw: _Draw) -> Estimate:
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.score is not None and row.status in {"pass", "fail"}:
            scores[row.task].append(row.score)
    means = [math.fsum(scores[task]) / len(scores[task]) for task in sorted(scores)]
    return _over_tasks(means, sum(map(len, scores.values())), draw, capped=False)


def _at_k(counts: Sequence[TaskCount], k: int, draw: _Draw) -> AtK:
    enough = [count for count in counts if count.judged >= k]
    attempts = sum(count.judged for count in enough)
    at = [pass_at_k(count.judged, count.passed, k) for count in enough]
    hat = [pass_hat_k(count.judged, count.passed, k) for count in enough]
    return AtK(
        k=k,
        pass_at_k=_named(_over_tasks(at, attempts, draw, capped=True), k),
        pass_at_k_bounds=_bounds(counts, k, hat=False),
        pass_hat_k=_named(_over_tasks(hat, attempts, draw, capped=True), k),
        pass_hat_k_bounds=_bounds(counts, k, hat=True),
    )


def _named(estimate: Estimate, k: int) -> Estimate:
    if estimate.value is not None:
        return estimate
    return msgspec.structs.replace(estimate, method=f"no task has {k} judged attempts")


def _bounds(counts: Sequence[TaskCount], k: int, *, hat: bool) -> Bounds:
    rate = pass_hat_k if hat else pass_at_k
    enough = [count for count in counts if count.attempts >= k]
    if not enough:
        return Bounds(None, None)
    worst = [rate(count.attempts, count.passed, k) for count in enough]
    best = [rate(count.attempts, count.attempts - count.failed - count.doubtful, k) for count in enough]
    return Bounds(math.fsum(worst) / len(worst), math.fsum(best) / len(best))
