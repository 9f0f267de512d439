"""Shares of the variance between attempts explained by each factor: agent, model, harness, task.

Shares of the sum of squares in a least-squares fit of main effects (type II: each factor given all others), optionally
with the interaction of two factors; the residual is chance and all other factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class VarianceComponent(msgspec.Struct, frozen=True):
    """The part of one factor."""

    name: str
    levels: int
    share: float | None
    """Of the total sum of squares, in [0, 1]; None where nothing varies. Shares of
    factors that are not fully crossed need not add up to 1."""
    effects: dict[str, float]
    """Mean of each level's values minus the overall mean."""


def variance_components(
    values: Sequence[float], factors: Mapping[str, Sequence[str]], *, interaction: tuple[str, str] | None = None
) -> tuple[VarianceComponent, ...]:
    """Returns the components of the factors (name to the level of each attempt) in their order, then of the interaction
    of two of them, then `residual`.

    Raises:
        ValueError: The columns differ in length, or the interaction names an unknown factor.
    """
    column = np.asarray(values, dtype=np.float64)
    coded = {name: _encode_factor(name, levels, len(column)) for name, levels in factors.items()}
    unknown = [name for name in interaction or () if name not in coded]
    if unknown:
        raise ValueError(f"unknown factor {unknown[0]!r}; known: {', '.join(coded)}")
    total = float(((column - column.mean()) ** 2).sum()) if len(column) else 0.0
    full = _residual_squares(column, list(coded.values()))
    found = [_component(name, coded, column, (full, total)) for name in coded]
    left = full
    if interaction is not None:
        one, other = (coded[name] for name in interaction)
        joined = one.places * len(other.levels) + other.places
        known, places = np.unique(joined, return_inverse=True)
        cells = _EncodedFactor(tuple(map(str, known)), places)
        left = _residual_squares(column, [*coded.values(), cells])
        name = f"{interaction[0]} x {interaction[1]}"
        found.append(VarianceComponent(name, len(known), _share(full - left, total), {}))
    found.append(VarianceComponent("residual", 0, _share(left, total), {}))
    return tuple(found)


class _EncodedFactor(NamedTuple):
    """A factor as codes: its levels, and each value's level."""

    levels: tuple[str, ...]
    places: npt.NDArray[np.intp]

    @property
    def counts(self) -> Floats:
        return np.bincount(self.places, minlength=len(self.levels)).astype(np.float64)

    def sums(self, column: Floats) -> Floats:
        """Returns the sum of each level's values."""
        return np.bincount(self.places, column, len(self.levels)).astype(np.float64)

    def cross_counts(self, other: _EncodedFactor) -> Floats:
        """Returns the number of values for each pair of levels of two factors."""
        size = len(self.levels) * len(other.levels)
        joined = self.places * len(other.levels) + other.places
        return np.bincount(joined, minlength=size).reshape(len(self.levels), -1).astype(np.float64)


def _component(
    name: str, coded: Mapping[str, _EncodedFactor], column: Floats, squares: tuple[float, float]
) -> VarianceComponent:
    full, total = squares
    without = _residual_squares(column, [factor for other, factor in coded.items() if other != name])
    mine = coded[name]
    means = mine.sums(column) / mine.counts - (column.mean() if len(column) else 0.0)
    effects = {level: float(mean) for level, mean in zip(mine.levels, means, strict=True)}
    return VarianceComponent(name, len(mine.levels), _share(without - full, total), effects)


def _encode_factor(name: str, levels: Sequence[str], count: int) -> _EncodedFactor:
    if len(levels) != count:
        raise ValueError(f"factor {name!r} has {len(levels)} entries for {count} values")
    known, places = np.unique(np.asarray(levels, dtype=str), return_inverse=True)
    return _EncodedFactor(tuple(map(str, known)), places)


def _residual_squares(column: Floats, factors: Sequence[_EncodedFactor]) -> float:
    """Returns the residual sum of squares of a fit with an intercept.

    The factor with the most levels (the task, of which there may be thousands) is removed by its means, and only the
    normal equations of the others are solved: the cost depends on tables of counts, not on the number of attempts.
    """
    if not len(column):
        return 0.0
    left = column - column.mean()
    if not factors:
        return float(left @ left)
    widest = max(factors, key=lambda factor: len(factor.levels))
    left = left - (widest.sums(left) / widest.counts)[widest.places]
    others = [factor for factor in factors if factor is not widest]
    if not others:
        return float(left @ left)
    beside = np.vstack([factor.cross_counts(widest) for factor in others])
    within = (
        np.block([[one.cross_counts(other) for other in others] for one in others]) - beside / widest.counts @ beside.T
    )
    target = np.concatenate([factor.sums(left) for factor in others])
    fitted = np.linalg.lstsq(within, target, rcond=None)[0]
    return max(0.0, float(left @ left - fitted @ target))


def _share(part: float, total: float) -> float | None:
    return max(0.0, min(1.0, part / total)) if total > 1e-12 else None
