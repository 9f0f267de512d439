"""Consistency over repetitions, and robustness to perturbations.

After HAL's reliability measures, with intervals over tasks, where HAL's treat attempts as independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from ._clustered import REPLICATES, percentiles
from ._paired import PairedComparison, compare_paired, difference_interval
from ._rates import Interval, normal_quantile, pass_at_k
from ._summary import Estimate, TaskCount


class Robustness(msgspec.Struct, frozen=True):
    """The effect of a perturbation."""

    ratio: float | None
    """Rate with the perturbation over the rate without, at most 1; None where nothing passed without."""
    ratio_interval: Interval | None
    delta: PairedComparison
    """Comparison of without and with, by task."""


def outcome_consistency(counts: Iterable[TaskCount], confidence: float = 0.95) -> Estimate:
    """Estimates the mean over tasks with at least two judged attempts of `(2 p - 1)^2`: 1 where attempts agree, 0 where
    half pass.

    The square of an observed rate is too large by `4 p (1 - p) / n`, so that HAL's measure rises as attempts become
    fewer; here `p (1 - p)` is estimated without that bias, as `n / (n - 1)` times what is observed.
    """
    judged = [count for count in counts if count.judged >= 2]
    values = [_agreement(count.passed / count.judged, count.judged) for count in judged]
    attempts = sum(count.judged for count in judged)
    if not values:
        return Estimate(None, None, None, "no task has two judged attempts", 0, 0, confidence)
    interval = difference_interval(values, confidence)
    low, high = (max(0.0, end) for end in interval) if interval is not None else (None, None)
    method = "Student over tasks" if interval is not None else "one task has no spread"
    return Estimate(max(0.0, float(np.mean(values))), low, high, method, attempts, len(values), confidence)


def _agreement(rate: float, attempts: int) -> float:
    return 1 - 4 * rate * (1 - rate) * attempts / (attempts - 1)


def measure_robustness(
    plain: Sequence[TaskCount], perturbed: Sequence[TaskCount], *, confidence: float = 0.95, seed: int = 0
) -> Robustness:
    """Compares an agent with and without a perturbation (an injected error, another wording), on the tasks of both."""
    normal_quantile(confidence)
    delta = compare_paired(plain, perturbed, confidence=confidence, seed=seed)
    if not delta.n_tasks or not delta.before or delta.after is None:
        return Robustness(None, None, delta)
    shared = set(delta.tasks)
    rates = [
        {count.task: count.passed / count.judged for count in side if count.task in shared and count.judged}
        for side in (plain, perturbed)
    ]
    table = np.array([[side[task] for side in rates] for task in delta.tasks])
    draw = np.random.default_rng(seed)
    means = table[draw.integers(0, len(table), (REPLICATES, len(table)))].mean(axis=1)
    ratios_defined = means[means[:, 0] > 0]
    interval = None
    if len(table) > 1 and len(ratios_defined) > 100:
        interval = percentiles(np.minimum(1.0, ratios_defined[:, 1] / ratios_defined[:, 0]), confidence)
    return Robustness(min(1.0, delta.after / delta.before), interval, delta)


def blind_replay_line(counts: Iterable[TaskCount], k: int) -> float | None:
    """Returns the rate of a script that blindly replays the best of k recorded attempts in a deterministic environment:
    the source agent's pass@k (PRISM; "CU at the Edge of the Statistical Precipice"). Where it is high, a benchmark also
    measures memory. None where no task has k judged attempts."""
    enough = [pass_at_k(count.judged, count.passed, k) for count in counts if count.judged >= k]
    return float(np.mean(enough)) if enough else None
