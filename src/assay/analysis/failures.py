"""Shortfalls of an attempt against a passing reference.

Source: the failure reasons of AgentLens (arXiv 2605.12925), with its bounds and published names. Its data gives no
reasons for good verdicts (`PASS`, `LIKELY PASS`); here they are always given.

Misleading: an attempt that differs early "diverges", however well it continues.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .coverage import Coverage
from .stages import Stage

__all__ = ["Shortfall", "first_divergence", "shortfalls"]

Reason = Literal[
    "early_divergence", "missing_verification", "incomplete_implementation", "trajectory_thrashing", "low_coverage"
]
_EARLY, _VERIFIED, _IMPLEMENTED, _BADLY, _COHERENT, _COVERED = 0.40, 0.25, 0.50, 0.25, 0.35, 0.30


class Shortfall(msgspec.Struct, frozen=True):
    """Reason for a difference from the reference."""

    reason: Reason
    severity: Literal["critical", "high", "medium"]
    value: float
    """Share, in [0, 1], below its bound."""


def first_divergence(coverage: Coverage) -> int:
    """Returns the first unmatched position of the attempt."""
    for expected, pair in enumerate(coverage.pairs):
        if pair.left != expected:
            return expected
    return len(coverage.pairs)


def shortfalls(
    coverage: float, coherence: float, stages: dict[Stage, float], divergence: float | None
) -> tuple[Shortfall, ...]:
    """Returns the reasons in order of importance.

    Args:
        coverage: Covered portion of the reference.
        coherence: Coherence of the attempt.
        stages: Covered portion of each stage that the reference has.
        divergence: Relative position in the reference where the attempt leaves it, in [0, 1]; None if it never does.
    """
    found: list[Shortfall] = []
    verified, implemented = stages.get("verify"), stages.get("implement")
    if divergence is not None and divergence < _EARLY:
        found.append(Shortfall("early_divergence", "critical", divergence))
    if verified is not None and verified < _VERIFIED:
        found.append(Shortfall("missing_verification", "high", verified))
    if implemented is not None and implemented < _IMPLEMENTED:
        found.append(Shortfall("incomplete_implementation", "high" if implemented < _BADLY else "medium", implemented))
    if coherence < _COHERENT:
        found.append(Shortfall("trajectory_thrashing", "medium", coherence))
    if coverage < _COVERED:
        found.append(Shortfall("low_coverage", "medium", coverage))
    return tuple(found)
