"""How much of what differs between attempts each factor explains: agent, model, harness, task.

Shares of the sum of squares in a least-squares fit of main effects (type II: each factor given all others), with the
first two factors' interaction where it was tried; what is left is chance and everything that was not told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["Component", "explained"]

Floats = npt.NDArray[np.float64]


class Component(msgspec.Struct, frozen=True):
    """One factor's part."""

    name: str
    levels: int
    share: float | None
    """Of the total sum of squares, in [0, 1]; None where nothing varies. Of factors that were not crossed in full they
    need not add up to 1."""
    effects: dict[str, float]
    """Of each level: the mean of its values minus the mean of all."""


def explained(
    values: Sequence[float], factors: Mapping[str, Sequence[str]], *, interaction: tuple[str, str] | None = None
) -> tuple[Component, ...]:
    """The parts of the factors, in their order, then of the interaction, then `residual`.

    Args:
        values: One an attempt, for example 1 for a pass.
        factors: Name to the level of each attempt.
        interaction: Two of the factors whose combination is tried beyond their sum.

    Raises:
        ValueError: The columns differ in length, or the interaction names an unknown factor.
    """
    column = np.asarray(values, dtype=np.float64)
    coded = {name: _coded(name, levels, len(column)) for name, levels in factors.items()}
    unknown = [name for name in interaction or () if name not in coded]
    if unknown:
        raise ValueError(f"no factor is called {unknown[0]!r}: known are {', '.join(coded)}")
    total = float(((column - column.mean()) ** 2).sum()) if len(column) else 0.0
    full = _unexplained(column, list(coded.values()))
    found = [_component(name, coded, column, (full, total)) for name in coded]
    left = full
    if interaction is not None:
        one, other = (coded[name] for name in interaction)
        joined = one.places * len(other.levels) + other.places
        known, places = np.unique(joined, return_inverse=True)
        cells = _Coded(tuple(map(str, known)), places)
        left = _unexplained(column, [*coded.values(), cells])
        name = f"{interaction[0]} x {interaction[1]}"
        found.append(Component(name, len(known), _share(full - left, total), {}))
    found.append(Component("residual", 0, _share(left, total), {}))
    return tuple(found)


class _Coded(NamedTuple):
    """A factor: its levels, and which of them each value has."""

    levels: tuple[str, ...]
    places: npt.NDArray[np.intp]

    @property
    def counts(self) -> Floats:
        return np.bincount(self.places, minlength=len(self.levels)).astype(np.float64)

    def sums(self, column: Floats) -> Floats:
        """Of each level, the sum of its values."""
        return np.bincount(self.places, column, len(self.levels)).astype(np.float64)

    def crossed(self, other: _Coded) -> Floats:
        """How many values each level has together with each of another factor."""
        size = len(self.levels) * len(other.levels)
        joined = self.places * len(other.levels) + other.places
        return np.bincount(joined, minlength=size).reshape(len(self.levels), -1).astype(np.float64)


def _component(name: str, coded: Mapping[str, _Coded], column: Floats, squares: tuple[float, float]) -> Component:
    full, total = squares
    without = _unexplained(column, [factor for other, factor in coded.items() if other != name])
    mine = coded[name]
    means = mine.sums(column) / mine.counts - (column.mean() if len(column) else 0.0)
    effects = {level: float(mean) for level, mean in zip(mine.levels, means, strict=True)}
    return Component(name, len(mine.levels), _share(without - full, total), effects)


def _coded(name: str, levels: Sequence[str], count: int) -> _Coded:
    if len(levels) != count:
        raise ValueError(f"factor {name!r} has {len(levels)} entries for {count} values")
    known, places = np.unique(np.asarray(levels, dtype=str), return_inverse=True)
    return _Coded(tuple(map(str, known)), places)


def _unexplained(column: Floats, factors: Sequence[_Coded]) -> float:
    """The residual sum of squares of a fit with an intercept.

    The factor with the most levels (the task, of which there may be thousands) is taken out by its means, and only the
    normal equations of the others are solved: the sizes of tables of counts, not the number of attempts, decide.
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
    beside = np.vstack([factor.crossed(widest) for factor in others])
    within = np.block([[one.crossed(other) for other in others] for one in others]) - beside / widest.counts @ beside.T
    target = np.concatenate([factor.sums(left) for factor in others])
    fitted = np.linalg.lstsq(within, target, rcond=None)[0]
    return max(0.0, float(left @ left - fitted @ target))


def _share(part: float, total: float) -> float | None:
    return max(0.0, min(1.0, part / total)) if total > 1e-12 else None
