"""What admission found wrong with a task, one record a thing. It states what was observed; it repairs nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["hole", "weak", "broken", "note"]

SEVERITIES: tuple[Severity, ...] = ("hole", "broken", "weak", "note")
"""Gravest first."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong, or worth a look."""

    kind: str
    """What it is, in one hyphenated word that the documentation explains: `cheat-passed`, `oracle-fails`, ..."""
    task: str
    probe: str | None
    """The probe that showed it; None where no attempt did."""
    severity: Severity
    """`hole`: something is paid that should not be. `broken`: honest work is not paid, or not always. `weak`: wrong
    work may be paid, or right work refused, as far as a sample shows. `note`: to be known."""
    text: str
    """What was seen, in a sentence or two for the task's author."""
    closed_by: tuple[str, ...] = ()
    """Settings that close it, the safest first."""
    heuristic: bool = False
    """Guessed from text; no attempt showed it."""
    verification: str | None = None
    """Under which verification it was seen: `default` or `as_asked`."""
    evidence: tuple[str, ...] = ()
    """Where it can be looked up: ids of attempts, paths, lines."""
