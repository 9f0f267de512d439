"""Paired comparison of two configurations on the same tasks: changes, their size and significance.

The unit is the task: gained where its rate rose, lost where it fell. With one attempt a task the sign test is McNemar's
exact test (McNemar 1947; the binomial test on the pairs that differ); with several it is the same test on tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ._clustered import REPLICATES, student_quantile, task_bootstrap
from ._rates import Interval, mean_or_none, normal_quantile
from ._summary import Estimate, TaskCount


class Flip(msgspec.Struct, frozen=True):
    """A task whose rate changed."""

    task: str
    before: float
    after: float
    attempts_before: int
    attempts_after: int

    @property
    def whole(self) -> bool:
        """Returns whether all attempts passed on one side and none on the other."""
        return {self.before, self.after} == {0.0, 1.0}


class PairedComparison(msgspec.Struct, frozen=True):
    """A comparison over the tasks that were judged in both."""

    tasks: tuple[str, ...]
    n_tasks: int
    same: int
    gained: tuple[Flip, ...]
    """Fail to pass, the largest change first."""
    lost: tuple[Flip, ...]
    """Pass to fail, the largest change first."""
    before: float | None
    """Mean over those tasks."""
    after: float | None
    difference: Estimate
    """After minus before, with Student's interval over the tasks' differences."""
    difference_bootstrap: Estimate
    """The same with tasks drawn in pairs."""
    p_value: float
    """Two-sided exact McNemar test (sign test on tasks)."""
    p_gain: float
    """One-sided: how likely so many gains or more are by chance alone."""
    p_loss: float
    only_before: tuple[str, ...] = ()
    """Tasks judged on one side only, which are not compared."""
    only_after: tuple[str, ...] = ()


def format_p_value(p_value: float, *, digits: int) -> str:
    """Returns a p-value with this many decimals; one that would round to 0 as a bound, such as `< 0.001`."""
    return f"< {10.0**-digits:.{digits}f}" if p_value < 10.0**-digits / 2 else f"{p_value:.{digits}f}"


def sign_test(gained: int, lost: int, side: Literal["both", "gain", "loss"] = "both") -> float:
    """Returns the p-value of the exact binomial test that gains and losses are equally likely; 1 without changes.

    Raises:
        ValueError: A count is negative.
    """
    if gained < 0 or lost < 0:
        raise ValueError(f"counts must not be negative, got {gained} and {lost}")
    n = gained + lost
    if n == 0:
        return 1.0
    if side == "both":
        return min(1.0, 2 * _tail(n, max(gained, lost)))
    return _tail(n, gained if side == "gain" else lost)


def _tail(n: int, least: int) -> float:
    """Returns P(X >= least) of n fair coins, in integers until the last division."""
    return sum(math.comb(n, k) for k in range(least, n + 1)) / (1 << n)


def sign_flip_test(differences: Sequence[float]) -> float:
    """Returns the exact one-sided p-value of the sum of differences, each of whose signs is equally likely by chance.

    With one attempt a task it equals the sign test; with several it also uses the size of each difference. The exact
    distribution needs differences that are multiples of one fraction (equal numbers of attempts); of others only the
    signs are used. 1 without differences.

    Raises:
        ValueError: A difference is not finite.
    """
    values = np.asarray([d for d in differences if d != 0], dtype=np.float64)
    if not bool(np.all(np.isfinite(values))):
        raise ValueError("a difference is not a finite number")
    if not len(values):
        return 1.0
    steps = _whole_steps(values.tolist())
    if steps is None:
        return sign_test(int((values > 0).sum()), int((values < 0).sum()), "gain")
    sizes = [abs(step) for step in steps]
    chances = np.ones(1)  # index: sum of the differences taken as gains
    for size in sizes:
        further = np.zeros(len(chances) + size)
        further[: len(chances)] += chances / 2
        further[size:] += chances / 2
        chances = further
    gained = sum(step for step in steps if step > 0)
    return min(1.0, float(chances[gained:].sum()))


_MOST_ATTEMPTS = 64
"""Largest denominator of a task's rate for which the exact distribution is computed."""


def _whole_steps(values: Sequence[float]) -> list[int] | None:
    """Returns the values as multiples of their smallest fraction; None without one of a small denominator."""
    for denominator in range(1, _MOST_ATTEMPTS + 1):
        steps = [round(value * denominator) for value in values]
        if all(abs(value * denominator - step) < 1e-9 for value, step in zip(values, steps, strict=True)):
            return steps
    return None


def difference_interval(differences: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Returns Student's interval for the mean of the tasks' differences, limited to [-1, 1]; None for fewer than two
    tasks.

    Where all differences agree, the half width is that of Wilson's interval for a proportion of 0 in as many tasks.
    """
    normal_quantile(confidence)
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n < 2:
        return None
    quantile, mean = student_quantile(n - 1, confidence), float(values.mean())
    spread = float(values.std(ddof=1))
    half = quantile * spread / math.sqrt(n) if spread > 1e-12 else quantile**2 / (n + quantile**2)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def compare_paired(
    before: Iterable[TaskCount], after: Iterable[TaskCount], *, confidence: float = 0.95, seed: int = 0
) -> PairedComparison:
    """Compares two configurations task by task, over judged attempts; each is one agent with one model, counted by
    task.

    Raises:
        ValueError: A task is given twice on one side.
    """
    old, new = _by_task(before), _by_task(after)
    both = sorted(old.keys() & new.keys())
    flips = [_flip(old[task], new[task]) for task in both]
    differences = [flip.after - flip.before for flip in flips]
    gained = sorted((f for f in flips if f.after > f.before), key=lambda f: (f.before - f.after, f.task))
    lost = sorted((f for f in flips if f.after < f.before), key=lambda f: (f.after - f.before, f.task))
    attempts = sum(old[t].judged + new[t].judged for t in both)
    return PairedComparison(
        tasks=tuple(both),
        n_tasks=len(both),
        same=len(both) - len(gained) - len(lost),
        gained=tuple(gained),
        lost=tuple(lost),
        before=mean_or_none([f.before for f in flips]),
        after=mean_or_none([f.after for f in flips]),
        difference=_estimate(
            differences, difference_interval(differences, confidence), "Student over tasks", attempts, confidence
        ),
        difference_bootstrap=_estimate(
            differences,
            task_bootstrap(differences, confidence, seed=seed, replicates=REPLICATES),
            "paired bootstrap over tasks",
            attempts,
            confidence,
        ),
        p_value=sign_test(len(gained), len(lost)),
        p_gain=sign_test(len(gained), len(lost), "gain"),
        p_loss=sign_test(len(gained), len(lost), "loss"),
        only_before=tuple(sorted(old.keys() - new.keys())),
        only_after=tuple(sorted(new.keys() - old.keys())),
    )


def _by_task(counts: Iterable[TaskCount]) -> Mapping[str, TaskCount]:
    found: dict[str, TaskCount] = {}
    for count in counts:
        if count.task in found:
            raise ValueError(f"task {count.task!r} is given twice: compare one agent with one model")
        found[count.task] = count
    return {task: count for task, count in found.items() if count.judged}


def _flip(old: TaskCount, new: TaskCount) -> Flip:
    return Flip(old.task, old.passed / old.judged, new.passed / new.judged, old.judged, new.judged)


def _estimate(
    values: Sequence[float], interval: Interval | None, method: str, attempts: int, confidence: float
) -> Estimate:
    tasks = len(values)
    if interval is None:
        why = "one task has no spread" if tasks else "no task was judged in both"
        return Estimate(mean_or_none(values), None, None, why, attempts, tasks, confidence)
    return Estimate(mean_or_none(values), *interval, method, attempts, tasks, confidence)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns adjusted p-values that control the family-wise error rate (Holm 1979), in the given order.

    Raises:
        ValueError: A p-value is outside [0, 1].
    """
    p_array = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not bool(np.all((p_array >= 0) & (p_array <= 1))):
        raise ValueError("a p-value is in [0, 1]")
    order = np.argsort(p_array, kind="stable")
    scaled = p_array[order] * np.arange(len(p_array), 0, -1)
    adjusted = np.empty(len(p_array))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return tuple(float(p) for p in adjusted)
