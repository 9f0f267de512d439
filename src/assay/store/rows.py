"""The row that stands for a chain: what listing, resuming and statistics need without reading the events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from assay.records import AttemptEnded, AttemptStarted, Body, Noted, Verdict, VerdictGiven, VerdictStatus

__all__ = ["AttemptRow", "RowBuilder", "worst_outcome"]

_WORST_FIRST: tuple[VerdictStatus, ...] = ("error", "unknown", "fail", "pass")


def worst_outcome(verdicts: Iterable[Verdict]) -> VerdictStatus | None:
    """The worst status of the outcome verdicts, in the order error, unknown, fail, pass; None where there is none."""
    found = {v.status for v in verdicts if v.kind == "outcome"}
    return next((status for status in _WORST_FIRST if status in found), None)


class AttemptRow(msgspec.Struct, frozen=True):
    """One chain (one try at one attempt), summed up."""

    run: str
    chain: str
    attempt: str
    task: str
    task_digest: str
    agent: str
    model: str | None
    seed: int
    number: int
    retry: int
    isolation: str | None
    started: float | None
    finished: float | None
    """When it ended; None while it runs, and for ever where the runner died."""
    ended: str | None
    stopped: str | None
    broke: str | None
    error: str | None
    outcome: VerdictStatus | None
    score: float | None
    retried: bool
    """An infrastructure failure ended it and another try follows."""
    interrupted: bool
    steps: int
    metrics: dict[str, float]
    head: str
    length: int

    @property
    def final(self) -> bool:
        """Whether this try decides its attempt."""
        return self.finished is not None and not self.retried


class RowBuilder:
    """Folds the events of one chain into its row."""

    def __init__(self, run: str, chain: str) -> None:
        self.fields: dict[str, Any] = dict.fromkeys(AttemptRow.__struct_fields__)
        self.fields |= {"run": run, "chain": chain, "attempt": "", "task": "", "task_digest": "", "agent": ""}
        self.fields |= {"seed": 0, "number": 0, "retry": 0, "retried": False, "interrupted": False}
        self.fields |= {"steps": 0, "metrics": {}, "head": "", "length": 0}

    def add(self, body: Body) -> None:
        """Takes one event's body into account."""
        fields = self.fields
        match body:
            case AttemptStarted():
                for name in ("attempt", "task", "task_digest", "agent", "model", "seed", "number", "retry"):
                    fields[name] = getattr(body, name)
                fields["started"] = body.at
                fields["isolation"] = body.isolation.name if body.isolation else None
            case AttemptEnded():
                for name in ("ended", "stopped", "broke", "error", "metrics"):
                    fields[name] = getattr(body, name)
                fields["finished"] = body.at or 0.0
            case VerdictGiven(verdict) if verdict.kind == "outcome":
                self._judge(verdict)
            case Noted(name):
                fields["retried"] = fields["retried"] or name == "retried"
                fields["interrupted"] = fields["interrupted"] or name == "interrupted"
            case _:
                fields["steps"] += type(body).__name__ == "StepTaken"

    def _judge(self, verdict: Verdict) -> None:
        known = [s for s in (self.fields["outcome"], verdict.status) if s is not None]
        self.fields["outcome"] = min(known, key=_WORST_FIRST.index)
        if verdict.score is not None:
            before = self.fields["score"]
            self.fields["score"] = verdict.score if before is None else min(before, verdict.score)

    def row(self) -> AttemptRow:
        """The row as it is now."""
        return AttemptRow(**self.fields)
