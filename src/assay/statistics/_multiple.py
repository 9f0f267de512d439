"""Corrections of p-values for multiple comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
