"""Rates of single tasks, Wilson's interval, and Fisher's exact test of two rates.

`pass_at_k` and `pass_hat_k` are the unbiased estimators: the average over all ways to draw k of the n attempts that
were made. (`(c / n) ** k`, sometimes published as pass^k, is biased upwards.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """Returns the probability that at least one of k attempts passes: `1 - C(n - c, k) / C(n, k)`.

    Raises:
        ValueError: Fewer than k attempts, or impossible counts.
    """
    _check(attempts, passed, k)
    return 1.0 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, passed: int, k: int) -> float:
    """Returns the probability that all of k attempts pass: `C(c, k) / C(n, k)`.

    Raises:
        ValueError: Fewer than k attempts, or impossible counts.
    """
    _check(attempts, passed, k)
    return math.comb(passed, k) / math.comb(attempts, k)


def _check(attempts: int, passed: int, k: int) -> None:
    if not 0 <= passed <= attempts:
        raise ValueError(f"passed must be between 0 and attempts ({attempts}), got {passed}")
    if not 1 <= k <= attempts:
        raise ValueError(f"k must be between 1 and attempts ({attempts}), got {k}")


def mean_or_none(values: Sequence[float]) -> float | None:
    """Returns the mean, or None for no values."""
    return math.fsum(values) / len(values) if values else None


def normal_quantile(confidence: float) -> float:
    """Returns the two-sided quantile of the normal distribution: 1.96 for 0.95."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    from statistics import NormalDist  # late: with fractions and decimal, which a live attempt does not need

    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(passed: int, attempts: int, confidence: float = 0.95) -> Interval:
    """Returns Wilson's score interval for independent attempts; (0, 1) without attempts.

    Attempts at the same task are not independent: over several tasks use `mean_interval`.
    """
    if not 0 <= passed <= attempts:
        raise ValueError(f"passed must be between 0 and attempts ({attempts}), got {passed}")
    z = normal_quantile(confidence)
    return wilson_at(passed / attempts, attempts, z) if attempts else Interval(0.0, 1.0)


def wilson_at(rate: float, n: float, z: float) -> Interval:
    """Returns the score interval for any rate in [0, 1], effective number of observations and quantile."""
    square = z * z
    centre = (rate + square / (2 * n)) / (1 + square / n)
    half = z * math.sqrt(rate * (1 - rate) / n + square / (4 * n * n)) / (1 + square / n)
    # At a rate of 0 and of 1 the end is exact; rounding must not move it, nor put the rate outside.
    low, high = max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate))
    return Interval(0.0 if rate == 0 else low, 1.0 if rate == 1 else high)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Returns an interval between two values of the sample that contains the median with at least this confidence.

    By order statistics: the probability that `k` or fewer of `n` values lie below the median is binomial. None where
    the sample is too small for any two of its values to have that confidence (fewer than 6 for 0.95).

    Raises:
        ValueError: A value is NaN, or confidence is not in (0, 1).
    """
    normal_quantile(confidence)
    if any(math.isnan(value) for value in values):
        raise ValueError("a value is NaN")
    ordered, n = sorted(values), len(values)
    tail, below, drop = (1 - confidence) / 2, 0.0, 0
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if below > tail:
            break
        drop = k + 1
    if drop == 0:
        return None
    low, high = ordered[drop - 1], ordered[n - drop]
    from statistics import median  # late, as above

    middle = median(ordered)
    return Interval(min(low, middle), max(high, middle))


def fisher_exact(passed: int, failed: int, other_passed: int, other_failed: int) -> float:
    """Returns the two-sided p-value of Fisher's exact test (1922) that two groups have the same rate.

    It sums the probabilities, given the margins, of all tables that are at most as likely as the one found; in
    integers until the last division. 1 without an observation in one of the groups.

    Raises:
        ValueError: A count is negative.
    """
    if min(passed, failed, other_passed, other_failed) < 0:
        raise ValueError(f"counts must not be negative, got {passed}, {failed}, {other_passed}, {other_failed}")
    first, second, passes = passed + failed, other_passed + other_failed, passed + other_passed
    weights = {
        at: math.comb(first, at) * math.comb(second, passes - at)
        for at in range(max(0, passes - second), min(first, passes) + 1)
    }
    found = weights[passed]
    return sum(weight for weight in weights.values() if weight <= found) / sum(weights.values())
