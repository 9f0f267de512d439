"""Many comparisons at once: p-values adjusted so that the chance of a false alarm stays what was promised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["benjamini_hochberg", "holm"]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values that bound the chance of even one false alarm (Holm 1979), in the order given.

    Raises:
        ValueError: A p-value is outside [0, 1].
    """
    given = _checked(p_values)
    order = np.argsort(given, kind="stable")
    scaled = given[order] * np.arange(len(given), 0, -1)
    return _restored(np.minimum(1.0, np.maximum.accumulate(scaled)), order)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values that bound the share of false alarms among the alarms (Benjamini and Hochberg 1995).

    Raises:
        ValueError: A p-value is outside [0, 1].
    """
    given = _checked(p_values)
    order = np.argsort(given, kind="stable")
    count = len(given)
    scaled = given[order] * count / np.arange(1, count + 1)
    return _restored(np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1]), order)


def _checked(p_values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    given = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not bool(np.all((given >= 0) & (given <= 1))):
        raise ValueError("a p-value is in [0, 1]")
    return given


def _restored(
    adjusted: np.ndarray[tuple[int], np.dtype[np.float64]], order: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[float, ...]:
    found = np.empty(len(adjusted))
    found[order] = adjusted
    return tuple(float(p) for p in found)
