"""Survival curves: the share still unsolved after so many turns, seconds or dollars."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np


class SurvivalPoint(msgspec.Struct, frozen=True):
    """One step of a survival curve."""

    at: float
    share: float
    """Share not solved by then."""
    at_risk: int
    """Attempts still running just before."""


def survival_curve(lengths: Sequence[float], solved: Sequence[bool]) -> tuple[SurvivalPoint, ...]:
    """Returns the Kaplan-Meier curve (1958) of the time to a pass; attempts without one are censored at their end.

    Raises:
        ValueError: The columns differ in length, or a length is negative or NaN.
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
