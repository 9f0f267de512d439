"""How much of what differs between attempts each factor explains: agent, model, harness, task.

Shares of the sum of squares in a least-squares fit of main effects (type II: each factor given all others), with the
first two factors' interaction where it was tried; what is left is chance and everything that was not told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        message = f"no factor is called {unknown[0]!r}: known are {', '.join(coded)}"
        raise ValueError(message)
    total = float(((column - column.mean()) ** 2).sum()) if len(column) else 0.0
    full = _unexplained(column, list(coded.values()))
    found = [_component(name, coded, column, (full, total), factors[name]) for name in coded]
    left = full
    if interaction is not None:
        joined = [f"{a} x {b}" for a, b in zip(factors[interaction[0]], factors[interaction[1]], strict=True)]
        cells = _coded("interaction", joined, len(column))
        left = _unexplained(column, [*coded.values(), cells])
        name = f"{interaction[0]} x {interaction[1]}"
        found.append(Component(name, cells.shape[1], _share(full - left, total), {}))
    found.append(Component("residual", 0, _share(left, total), {}))
    return tuple(found)


def _component(
    name: str, coded: Mapping[str, Floats], column: Floats, squares: tuple[float, float], levels: Sequence[str]
) -> Component:
    full, total = squares
    without = _unexplained(column, [matrix for other, matrix in coded.items() if other != name])
    known = sorted(set(levels))
    given = np.asarray(levels, dtype=object)
    effects = {level: float(column[given == level].mean() - column.mean()) for level in known}
    return Component(name, len(known), _share(without - full, total), effects)


def _coded(name: str, levels: Sequence[str], count: int) -> Floats:
    if len(levels) != count:
        message = f"factor {name!r} has {len(levels)} entries for {count} values"
        raise ValueError(message)
    known, positions = np.unique(np.asarray(levels, dtype=str), return_inverse=True)
    return np.eye(len(known))[positions] if count else np.zeros((0, 0))


def _unexplained(column: Floats, matrices: Sequence[Floats]) -> float:
    """The residual sum of squares of a fit with an intercept."""
    if not len(column):
        return 0.0
    design = np.hstack([np.ones((len(column), 1)), *matrices])
    fitted = design @ np.linalg.lstsq(design, column, rcond=None)[0]
    return float(((column - fitted) ** 2).sum())


def _share(part: float, total: float) -> float | None:
    return max(0.0, min(1.0, part / total)) if total > 1e-12 else None
