"""What an attempt fell short of, measured against a reference that passed.

Source: the failure reasons of AgentLens (arXiv 2605.12925); its bounds are kept, and its words too where a name is
published. In its data no reasons are given to attempts whose verdict was good (`PASS`, `LIKELY PASS`); here they always
are, so that the reader decides.

When it misleads: an attempt that differs from the reference early "diverges", however well it goes on.
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
    """One reason why an attempt is not as the reference is."""

    reason: Reason
    severity: Literal["critical", "high", "medium"]
    value: float
    """The share, in [0, 1], that fell below its bound."""


def first_divergence(coverage: Coverage) -> int:
    """The first position of the attempt that has no partner in the reference."""
    for expected, pair in enumerate(coverage.pairs):
        if pair.left != expected:
            return expected
    return len(coverage.pairs)


def shortfalls(
    coverage: float, coherence: float, stages: dict[Stage, float], divergence: float | None
) -> tuple[Shortfall, ...]:
    """The reasons, in the order in which they matter.

    Args:
        coverage: Share of the reference that is covered.
        coherence: Of the attempt.
        stages: Share of each stage of the reference that is covered; a stage that it lacks is left out.
        divergence: How far through the reference the attempt leaves it, in [0, 1]; None where it never does.
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
