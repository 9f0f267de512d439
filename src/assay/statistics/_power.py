"""Power analysis: the difference that a plan can detect, and the plan that a difference needs.

With T tasks, m attempts at each, rate p and intra-task correlation r the variance of the mean over tasks is
`p (1 - p) / (T m) * (1 + (m - 1) r)`: more attempts at the same tasks help up to a floor of `p (1 - p) r / T`, more
tasks always do. For two configurations on the same tasks a share `shared` of what tasks differ by cancels.
Normal approximation; source: Miller, "Adding Error Bars to Evals" (2024), and any text on cluster sampling.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec


class StudyDesign(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and its assumptions."""

    tasks: int
    attempts: int = 1
    """At each task."""
    rate: float = 0.5
    """The expected pass rate; 0.5 is the most cautious."""
    icc: float = 0.4
    """Intra-task correlation."""
    shared: float = 0.0
    """Correlation of two configurations' true rates over tasks, from 0 (independent) to 1."""
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        if self.tasks < 1 or self.attempts < 1:
            raise ValueError(f"a plan has at least one task and one attempt, got {self.tasks} and {self.attempts}")
        for name in ("rate", "icc", "shared"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is in [0, 1], got {getattr(self, name)}")
        for name in ("alpha", "power"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is between 0 and 1, got {getattr(self, name)}")


def standard_error(design: StudyDesign) -> float:
    """Returns the standard error of one configuration's mean over tasks."""
    between, within = _parts(design)
    return math.sqrt((between + within / design.attempts) / design.tasks)


def detectable_difference(design: StudyDesign) -> float:
    """Returns the smallest true difference between two configurations on the same tasks that the plan's power
    detects."""
    return _quantiles(design) * math.sqrt(2 * _paired(design) / design.tasks)


def tasks_needed(design: StudyDesign, difference: float) -> int:
    """Returns the number of tasks with which a paired comparison detects `difference`.

    Raises:
        ValueError: The difference is not in (0, 1].
    """
    _check(difference)
    return max(2, math.ceil(2 * _paired(design) * (_quantiles(design) / difference) ** 2))


def attempts_needed(design: StudyDesign, difference: float) -> int | None:
    """Returns the number of attempts at each task that detect `difference`; None where only more tasks help.

    Raises:
        ValueError: The difference is not in (0, 1].
    """
    _check(difference)
    between, within = _parts(design)
    room = design.tasks * (difference / _quantiles(design)) ** 2 / 2 - between * (1 - design.shared)
    if within == 0:
        return 1 if room >= 0 else None
    return max(1, math.ceil(within / room)) if room > 0 else None


def _parts(design: StudyDesign) -> tuple[float, float]:
    """Returns the variance of a task's true rate, and of one attempt around it."""
    whole = design.rate * (1 - design.rate)
    return whole * design.icc, whole * (1 - design.icc)


def _paired(design: StudyDesign) -> float:
    between, within = _parts(design)
    return between * (1 - design.shared) + within / design.attempts


def _quantiles(design: StudyDesign) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - design.alpha / 2) + normal.inv_cdf(design.power)


def _check(difference: float) -> None:
    if not 0 < difference <= 1:
        raise ValueError(f"a difference of rates is in (0, 1], got {difference}")
