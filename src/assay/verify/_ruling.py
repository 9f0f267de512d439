"""The ruling that a check's rules come to."""

from __future__ import annotations

from typing import NamedTuple

from assay.records import VerdictStatus

__all__ = ["Ruling"]


class Ruling(NamedTuple):
    """A status, its score, why, and marks."""

    status: VerdictStatus
    score: float | None
    reason: str
    marks: tuple[str, ...] = ()
    """Everything that was observed against a pass (`assay.verdicts.MARKS`), the reason's own cause among it."""
