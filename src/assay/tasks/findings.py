"""Findings on a task folder, for load errors and for lint.

Not for: judging attempts. The invariant: every finding names a file, a field or line where there is one, what was
expected and got, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from assay.errors import UserError

Severity = Literal["error", "warning", "note"]
SHOWN = 50
"""Number of findings that a message lists; the exception holds all."""
_ORDER = {"error": 0, "warning": 1, "note": 2}


class TaskFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem in a task folder: `error` (the task does not load), `warning` (doubtful) or `note`."""

    rule: str
    severity: Severity
    path: str
    """The file, relative to the task folder."""
    message: str
    """The expected and the actual state."""
    fix: str
    """Suggested correction."""
    field: str = ""
    """The key, as in `steps[0].agent.timeout_sec`; empty where the whole file is meant."""
    line: int | None = None
    """From 1, where it is known."""
    column: int | None = None

    def __str__(self) -> str:
        """One line: place, field, message, fix."""
        place = self.path
        if self.line is not None:
            place += f":{self.line}" + (f":{self.column}" if self.column is not None else "")
        field = f" {self.field}:" if self.field else ""
        return f"{place}:{field} {self.message}; {self.fix}"


class InvalidTask(UserError):
    """A task folder that does not load. `findings` holds every error, `where` the folder."""

    def __init__(self, where: str, findings: Sequence[TaskFinding]) -> None:
        self.where = where
        self.findings = tuple(sorted(findings, key=lambda f: (_ORDER[f.severity], f.path, f.line or 0, f.field)))
        count = "1 problem" if len(self.findings) == 1 else f"{len(self.findings)} problems"
        lines = [f"task {where} is not valid ({count})", *(f"  {finding}" for finding in self.findings[:SHOWN])]
        if len(self.findings) > SHOWN:
            lines.append(f"  and {len(self.findings) - SHOWN} more; correct these first")
        super().__init__("\n".join(lines))


def errors_of(findings: Sequence[TaskFinding]) -> list[TaskFinding]:
    """Returns the errors among the findings."""
    return [finding for finding in findings if finding.severity == "error"]
