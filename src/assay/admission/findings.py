"""Findings of an admission: one record for each observed problem of a task."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["hole", "weak", "broken", "note"]

SEVERITIES: tuple[Severity, ...] = ("hole", "broken", "weak", "note")
"""From the gravest down."""


class AdmissionFinding(msgspec.Struct, frozen=True):
    """A problem of a task, or an observation worth noting."""

    kind: str
    """Its name; docs/soundness.md has a section on each kind."""
    task: str
    probe: str | None
    """Probe that showed it; None where no attempt did."""
    severity: Severity
    """`hole`: the verifier passes wrong work in an attempt. `broken`: honest work fails, at least sometimes. `weak`: a
    sample suggests that wrong work passes or right work fails. `note`: information."""
    text: str
    """Description for the task's author, in a sentence or two."""
    closed_by: tuple[str, ...] = ()
    """Settings that close it, the safest first."""
    heuristic: bool = False
    """Inferred from text; no attempt showed it."""
    verification: str | None = None
    """`default` or `as_asked`."""
    evidence: tuple[str, ...] = ()
    """Ids of attempts, paths or lines."""
