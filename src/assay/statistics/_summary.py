"""Summaries of agents from rows of outcomes.

Invariant: an unjudged attempt (`unknown`, `error`) is neither a pass nor a fail in any rate. It is counted, and
`OutcomeBounds` give the rate if all such attempts failed, or all passed. A doubtful pass is counted separately, and as
not passed in every rate.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from assay.records import Separation, VerdictStatus
from assay.verdicts import SEPARATIONS

from ._clustered import estimate_clustering, hierarchical_bootstrap, mean_interval
from ._rates import normal_quantile, pass_at_k, pass_hat_k, wilson

_STATUSES = ("pass", "fail", "unknown", "error")
_CLUSTERED = "Wilson at the task-clustered effective n"


class AttemptOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One attempt's outcome."""

    task: str
    agent: str
    model: str | None
    number: int
    """The attempt at this task by this agent; retries of one attempt are one row."""
    status: VerdictStatus
    """`unknown` also for an attempt without a verdict, `error` for a broken one."""
    score: float | None = None
    """In [0, 1], or None."""
    doubtful: bool = False
    """A distrusted pass (`assay.verdicts.Trust`)."""
    separation: Separation = "unknown"
    """Grade of the outcome."""
    redrawn: bool = False
    """The attempt had more than one draw (`store.redrawn_chains`)."""


class Estimate(msgspec.Struct, frozen=True):
    """A number and its interval; None where there are no data."""

    value: float | None
    low: float | None
    high: float | None
    method: str
    """The interval's method, or the reason for its absence."""
    n: int
    """Attempts behind it."""
    n_tasks: int
    confidence: float = 0.95


class OutcomeBounds(msgspec.Struct, frozen=True):
    """The value if every unjudged attempt had failed (`worst`), or passed (`best`)."""

    worst: float | None
    best: float | None


class AtK(msgspec.Struct, frozen=True):
    """pass@k (at least one of k passes) and pass^k (all k pass), over the tasks with at least k judged attempts."""

    k: int
    pass_at_k: Estimate
    pass_at_k_bounds: OutcomeBounds
    pass_hat_k: Estimate
    pass_hat_k_bounds: OutcomeBounds


class GroupSummary(msgspec.Struct, frozen=True):
    """The summary of one agent with one model. Rates are means over tasks of the task's own rate."""

    agent: str
    model: str | None
    n_tasks: int
    n_tasks_judged: int
    """Tasks with at least one attempt that passed or failed."""
    n_attempts: int
    passed: int
    """Trusted passes."""
    failed: int
    unknown: int
    error: int
    pass_at_1: Estimate
    """The estimate to report, with a cluster-robust interval. A doubtful pass does not count."""
    pass_at_1_bounds: OutcomeBounds
    pass_at_1_wilson: Estimate
    """For independent attempts: right with one attempt for each task, too narrow otherwise."""
    pass_at_1_bootstrap: Estimate
    """Hierarchical bootstrap over tasks and attempts: wide, and a point where all tasks agree."""
    mean_score: Estimate
    """Over judged attempts that have a score."""
    at_k: tuple[AtK, ...]
    icc: float | None
    """Intra-task correlation of passing; None where unknown."""
    design_effect: float | None
    effective_n: float | None
    doubtful: int = 0
    """Passes with something against them (integrity, safety, re-verification, grade of separation): counted separately,
    and as not passed in every rate."""
    pass_at_1_claimed: Estimate | None = None
    """Pass@1 with doubtful passes; None without any."""
    separations: dict[Separation, int] = {}
    """Number of `passed` by grade of separation, strongest first."""
    redrawn: int = 0
    """Attempts that had more than one draw; what the last one gave counts."""


class TaskCount(msgspec.Struct, frozen=True):
    """Counts of one task's attempts by one agent with one model."""

    agent: str
    model: str | None
    task: str
    passed: int
    failed: int
    unknown: int
    error: int
    doubtful: int = 0
    """Passes that do not count."""

    @property
    def judged(self) -> int:
        """Returns the number of attempts that passed or failed, including doubtful passes."""
        return self.passed + self.failed + self.doubtful

    @property
    def attempts(self) -> int:
        """Returns the number of all attempts."""
        return self.judged + self.unknown + self.error


class _EstimateOptions(NamedTuple):
    """Parameters of all estimates of one summary."""

    confidence: float
    seed: int


def count_by_task(rows: Iterable[AttemptOutcome]) -> tuple[TaskCount, ...]:
    """Counts outcomes by agent, model and task, sorted. Raises `ValueError` if an attempt is given twice."""
    return _count_by_task(_require_valid(rows))


def _count_by_task(rows: list[AttemptOutcome]) -> tuple[TaskCount, ...]:
    counts: dict[tuple[str, str | None, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        counts[row.agent, row.model, row.task]["doubtful" if row.doubtful else row.status] += 1
    found = [
        TaskCount(agent, model, task, c["pass"], c["fail"], c["unknown"], c["error"], c["doubtful"])
        for (agent, model, task), c in counts.items()
    ]
    return tuple(sorted(found, key=lambda count: (count.agent, count.model or "", count.task)))


def without_redrawn(rows: Iterable[AttemptOutcome]) -> list[AttemptOutcome]:
    """Returns outcomes in which an attempt that had more than one draw has no verdict."""
    return [replace(row, status="unknown", score=None, doubtful=False) if row.redrawn else row for row in rows]


def estimate_pass_rate(counts: Iterable[TaskCount], confidence: float = 0.95) -> Estimate:
    """Estimates pass@1 over tasks, each given once, with a cluster-robust interval."""
    normal_quantile(confidence)
    return _rate([count for count in counts if count.judged], _EstimateOptions(confidence, 0))


def estimate_at_k(counts: Iterable[TaskCount], k: int, confidence: float = 0.95) -> AtK:
    """Estimates pass@k and pass^k over tasks, each given once."""
    normal_quantile(confidence)
    return _at_k(list(counts), k, _EstimateOptions(confidence, 0))


def _require_valid(rows: Iterable[AttemptOutcome]) -> list[AttemptOutcome]:
    seen: set[tuple[str, str, str | None, int]] = set()
    found = list(rows)
    for row in found:
        key = (row.task, row.agent, row.model, row.number)
        if key in seen:
            raise ValueError(f"attempt {row.number} at task {row.task!r} by {row.agent!r} is given twice: one row each")
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
    rows: Iterable[AttemptOutcome], *, ks: Sequence[int] = (1, 2, 4), confidence: float = 0.95, seed: int = 0
) -> tuple[GroupSummary, ...]:
    """Summarizes by agent and model, sorted, with pass@k and pass^k for `ks`; the order of the rows does not matter.

    Raises:
        ValueError: An attempt is given twice, a score is outside [0, 1], k is below 1, or confidence is not in (0, 1).
    """
    normal_quantile(confidence)
    if any(k < 1 for k in ks):
        raise ValueError(f"every k must be at least 1, got {list(ks)}")
    groups: dict[tuple[str, str | None], list[AttemptOutcome]] = defaultdict(list)
    for row in _require_valid(rows):
        groups[row.agent, row.model].append(row)
    ordered = sorted(groups, key=lambda key: (key[0], key[1] is not None, key[1] or ""))
    return tuple(_summary(groups[key], ks, _EstimateOptions(confidence, seed)) for key in ordered)


def _summary(rows: list[AttemptOutcome], ks: Sequence[int], draw: _EstimateOptions) -> GroupSummary:
    counts = _count_by_task(rows)
    judged = [count for count in counts if count.judged]
    columns = [[1.0] * count.passed + [0.0] * (count.judged - count.passed) for count in judged]
    known = estimate_clustering(columns)
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
        pass_at_1_wilson=_independent_estimate(judged, draw),
        pass_at_1_bootstrap=_bootstrap_estimate(columns, draw),
        mean_score=_mean_score(rows, draw),
        at_k=tuple(_at_k(counts, k, draw) for k in ks),
        icc=known.icc,
        design_effect=known.design_effect,
        effective_n=known.effective_n,
        doubtful=sum(count.doubtful for count in counts),
        pass_at_1_claimed=_claimed_rate(judged, draw),
        separations=_separations(rows),
        redrawn=sum(row.redrawn for row in rows),
    )


def _separations(rows: Sequence[AttemptOutcome]) -> dict[Separation, int]:
    counts = Counter(row.separation for row in rows if row.status == "pass" and not row.doubtful)
    return {grade: counts[grade] for grade in SEPARATIONS if counts[grade]}


def _claimed_rate(judged: Sequence[TaskCount], draw: _EstimateOptions) -> Estimate | None:
    """Pass@1 with doubtful passes as passes."""
    if not any(count.doubtful for count in judged):
        return None
    replace = msgspec.structs.replace
    return _rate([replace(count, passed=count.passed + count.doubtful, doubtful=0) for count in judged], draw)


def _rate(judged: Sequence[TaskCount], draw: _EstimateOptions) -> Estimate:
    if len(judged) == 1:
        only = judged[0]
        interval = wilson(only.passed, only.judged, draw.confidence)
        value, method = only.passed / only.judged, "Wilson, for this one task alone"
        return Estimate(value, *interval, method, only.judged, 1, draw.confidence)
    task_means = [count.passed / count.judged for count in judged]
    return _over_tasks(task_means, sum(count.judged for count in judged), draw, capped=True)


def _over_tasks(task_means: Sequence[float], attempts: int, draw: _EstimateOptions, *, capped: bool) -> Estimate:
    """Estimates the mean over tasks, with its clustered interval."""
    tasks = len(task_means)
    if not tasks:
        return Estimate(None, None, None, "nothing was judged", 0, 0, draw.confidence)
    value = math.fsum(task_means) / tasks
    interval = mean_interval(task_means, draw.confidence, most=attempts if capped else None)
    if interval is None:
        return Estimate(value, None, None, "one task has no spread", attempts, tasks, draw.confidence)
    return Estimate(value, *interval, _CLUSTERED, attempts, tasks, draw.confidence)


def _independent_estimate(judged: Sequence[TaskCount], draw: _EstimateOptions) -> Estimate:
    passed, attempts = sum(c.passed for c in judged), sum(c.judged for c in judged)
    if not attempts:
        return Estimate(None, None, None, "nothing was judged", 0, 0, draw.confidence)
    interval = wilson(passed, attempts, draw.confidence)
    method = "Wilson over attempts as if independent"
    return Estimate(passed / attempts, *interval, method, attempts, len(judged), draw.confidence)


def _bootstrap_estimate(columns: list[list[float]], draw: _EstimateOptions) -> Estimate:
    tasks, attempts = len(columns), sum(map(len, columns))
    value = math.fsum(math.fsum(column) / len(column) for column in columns) / tasks if tasks else None
    interval = hierarchical_bootstrap(columns, draw.confidence, seed=draw.seed)
    if interval is None:
        method = "nothing was judged" if value is None else "one task has no spread"
        return Estimate(value, None, None, method, attempts, tasks, draw.confidence)
    return Estimate(value, *interval, "hierarchical bootstrap", attempts, tasks, draw.confidence)


def _mean_score(rows: Sequence[AttemptOutcome], draw: _EstimateOptions) -> Estimate:
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.score is not None and row.status in {"pass", "fail"}:
            scores[row.task].append(row.score)
    task_means = [math.fsum(scores[task]) / len(scores[task]) for task in sorted(scores)]
    return _over_tasks(task_means, sum(map(len, scores.values())), draw, capped=False)


def _at_k(counts: Sequence[TaskCount], k: int, draw: _EstimateOptions) -> AtK:
    enough = [count for count in counts if count.judged >= k]
    attempts = sum(count.judged for count in enough)
    at = [pass_at_k(count.judged, count.passed, k) for count in enough]
    hat = [pass_hat_k(count.judged, count.passed, k) for count in enough]
    return AtK(
        k=k,
        pass_at_k=_explain_missing(_over_tasks(at, attempts, draw, capped=True), k),
        pass_at_k_bounds=_bounds(counts, k, hat=False),
        pass_hat_k=_explain_missing(_over_tasks(hat, attempts, draw, capped=True), k),
        pass_hat_k_bounds=_bounds(counts, k, hat=True),
    )


def _explain_missing(estimate: Estimate, k: int) -> Estimate:
    if estimate.value is not None:
        return estimate
    return msgspec.structs.replace(estimate, method=f"no task has {k} judged attempts")


def _bounds(counts: Sequence[TaskCount], k: int, *, hat: bool) -> OutcomeBounds:
    rate = pass_hat_k if hat else pass_at_k
    enough = [count for count in counts if count.attempts >= k]
    if not enough:
        return OutcomeBounds(None, None)
    worst = [rate(count.attempts, count.passed, k) for count in enough]
    best = [rate(count.attempts, count.attempts - count.failed - count.doubtful, k) for count in enough]
    return OutcomeBounds(math.fsum(worst) / len(worst), math.fsum(best) / len(best))
