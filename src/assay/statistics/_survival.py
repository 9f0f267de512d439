"""How long attempts go on: the share that is still unsolved after so many turns, seconds or dollars."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

__all__ = ["SurvivalPoint", "survival"]


class SurvivalPoint(msgspec.Struct, frozen=True):
    """One step of the curve."""

    at: float
    share: float
    """Not solved by then."""
    at_risk: int
    """Attempts that were under way just before."""


def survival(lengths: Sequence[float], solved: Sequence[bool]) -> tuple[SurvivalPoint, ...]:
    """The Kaplan-Meier curve (1958) of the time to a pass; an attempt that ended without one is censored there.

    Raises:
        ValueError: The columns differ in length, or a length is negative or no number.
    """
    at, passed = np.asarray(lengths, dtype=np.float64), np.asarray(solved, dtype=bool)
    if at.shape != passed.shape or not bool(np.all(at >= 0)):
        raise ValueError("every attempt needs a length of at least 0 and whether it was solved")
    found, share = [SurvivalPoint(0.0, 1.0, len(at))], 1.0
    for time in np.unique(at[passed]):
        at_risk = int((at >= time).sum())
        share *= 1 - int((passed & (at == time)).sum()) / at_risk
        found.append(SurvivalPoint(float(time), share, at_risk))
    return tuple(found)
