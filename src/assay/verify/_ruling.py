"""The ruling of a check's rules."""

from __future__ import annotations

from typing import NamedTuple

from assay.records import VerdictStatus


class Ruling(NamedTuple):
    status: VerdictStatus
    score: float | None
    reason: str
    marks: tuple[str, ...] = ()
    """All observations against a pass (`assay.verdicts.MARKS`), including the cause that the reason names."""
