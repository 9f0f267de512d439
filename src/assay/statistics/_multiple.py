"""Corrections of p-values for multiple comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns adjusted p-values that control the family-wise error rate (Holm 1979), in the given order.

    Raises:
        ValueError: A p-value is outside [0, 1].
    """
    p_array = _require_probabilities(p_values)
    order = np.argsort(p_array, kind="stable")
    scaled = p_array[order] * np.arange(len(p_array), 0, -1)
    return _restore_order(np.minimum(1.0, np.maximum.accumulate(scaled)), order)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns adjusted p-values that control the false discovery rate (Benjamini and Hochberg 1995).

    Raises:
        ValueError: A p-value is outside [0, 1].
    """
    p_array = _require_probabilities(p_values)
    order = np.argsort(p_array, kind="stable")
    count = len(p_array)
    scaled = p_array[order] * count / np.arange(1, count + 1)
    return _restore_order(np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1]), order)


def _require_probabilities(p_values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    p_array = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not bool(np.all((p_array >= 0) & (p_array <= 1))):
        raise ValueError("a p-value is in [0, 1]")
    return p_array


def _restore_order(
    adjusted: np.ndarray[tuple[int], np.dtype[np.float64]], order: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[float, ...]:
    found = np.empty(len(adjusted))
    found[order] = adjusted
    return tuple(float(p) for p in found)
