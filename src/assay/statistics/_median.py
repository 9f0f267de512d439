"""A distribution-free interval for the median."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ._rates import Interval, normal_quantile


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Returns an interval between two values of the sample that contains the median with at least this confidence.

    By order statistics: the probability that `k` or fewer of `n` values lie below the median is binomial. None where
    the sample is too small for any two of its values to have that confidence (fewer than 6 for 0.95).

    Raises:
        ValueError: A value is no number, or confidence is no probability.
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
    middle = median(ordered)
    return Interval(min(low, middle), max(high, middle))
