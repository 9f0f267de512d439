"""The summary row of a chain: for listing, resuming and statistics without reading the events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Noted,
    Separation,
    StepAdded,
    Verdict,
    VerdictAdded,
    VerdictStatus,
    canonical_bytes,
)
from assay.verdicts import (
    is_own_praise,
    is_reverification,
    recorded_separation,
    weakest,
    worst_finding,
    worst_outcome,
)

ADMISSION = "admission"
"""The agent of an admission's chain, and the key in its run's manifest."""


SUMMED = ("attempt_started", "attempt_ended", "verdict", "note")
"""Types of the events that a row depends on, beside the number of steps."""


def ends_attempt(body: Body) -> bool:
    """Returns whether an event ends the attempt; later events of the chain were added afterwards."""
    return isinstance(body, AttemptEnded) or (isinstance(body, Noted) and body.name == "interrupted")


class AttemptRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The summary of one chain (one trial of one attempt)."""

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
    """As first judged; later events never change it (`load_current_verdicts` includes them)."""
    score: float | None
    retried: bool
    """An infrastructure failure ended it and another trial follows."""
    interrupted: bool
    steps: int
    metrics: dict[str, float]
    head: str
    length: int
    integrity: VerdictStatus | None = None
    """The worst over its checks of the newest integrity verdict of each, wherever in the chain it stands."""
    separation: Separation = "unknown"
    """Grade of the outcome as it was first judged: the weakest over its checks (`assay.verdicts`)."""

    @property
    def final(self) -> bool:
        """Returns whether this trial decides its attempt."""
        return self.finished is not None and not self.retried

    @property
    def called(self) -> str:
        """Returns its task and number, a readable name where the attempt's own is a digest."""
        return f"{self.task}@{self.number}"

    def is_called(self, words: str) -> bool:
        """Returns whether `words` are its task and number; the part before a slash may be left out."""
        return words in (self.called, self.called.rpartition("/")[2])


def final_rows(rows: Iterable[AttemptRow]) -> list[AttemptRow]:
    """Returns the deciding trial of every decided attempt, without those of admissions."""
    return [row for row in rows if row.final and row.agent != ADMISSION]


_EMPTY: dict[str, Any] = dict.fromkeys(sorted(AttemptRow.__struct_fields__)) | {
    **dict.fromkeys(("attempt", "task", "task_digest", "agent", "head"), ""),
    **dict.fromkeys(("seed", "number", "retry", "steps", "length"), 0),
    **{"retried": False, "interrupted": False, "metrics": {}, "separation": "unknown"},
}
"""The fields of a chain without events, in the order of their encoding; none of the values is ever changed in place."""


_FOLDED = frozenset({StepAdded, AttemptStarted, AttemptEnded, VerdictAdded, Noted})
"""Events that change a row; most events of an attempt do not."""


class RowBuilder:
    """Folds the events of one chain into its row."""

    def __init__(self, run: str, chain: str) -> None:
        self.fields: dict[str, Any] = _EMPTY | {"run": run, "chain": chain}
        self._integrity: dict[str, VerdictStatus] = {}
        self._grades: dict[str, Separation] = {}
        self._closed = False

    def add(self, body: Body) -> None:
        if type(body) not in _FOLDED:
            return
        fields = self.fields
        match body:
            case StepAdded():
                fields["steps"] += 1
            case AttemptStarted():
                fields["attempt"], fields["task"], fields["task_digest"] = body.attempt, body.task, body.task_digest
                fields["agent"], fields["model"], fields["seed"] = body.agent, body.model, body.seed
                fields["number"], fields["retry"], fields["started"] = body.number, body.retry, body.at
                fields["isolation"] = body.isolation.name if body.isolation else None
            case AttemptEnded():
                fields["ended"], fields["stopped"], fields["broke"] = body.ended, body.stopped, body.broke
                fields["error"], fields["metrics"], fields["finished"] = body.error, body.metrics, body.at or 0.0
                self._closed = True
            case VerdictAdded(verdict):
                self._judge(verdict)
            case Noted(name):
                fields["retried"] = fields["retried"] or name == "retried"
                fields["interrupted"] = fields["interrupted"] or name == "interrupted"
                self._closed = self._closed or ends_attempt(body)
            case _:
                pass

    def _judge(self, verdict: Verdict) -> None:
        fields = self.fields
        if is_own_praise(verdict):
            return
        if verdict.kind == "integrity":
            self._integrity = {**self._integrity, verdict.check: verdict.status}
            fields["integrity"] = worst_finding(self._integrity.values())
        elif verdict.kind == "outcome" and not self._closed and not is_reverification(verdict.check):
            self._grades = {**self._grades, verdict.check: recorded_separation(verdict)}
            fields["separation"] = weakest(self._grades.values())
            known, status = fields["outcome"], verdict.status
            fields["outcome"] = status if known is None else worst_outcome((known, status))
            if verdict.score is not None:
                fields["score"] = verdict.score if fields["score"] is None else min(fields["score"], verdict.score)

    def copy(self) -> RowBuilder:
        """Returns an independent copy."""
        other = object.__new__(RowBuilder)
        other.__dict__ |= self.__dict__
        other.fields = dict(self.fields)
        return other

    def encode(self) -> bytes:
        """Returns the row's stored form."""
        return canonical_bytes(self.fields)

    def row(self) -> AttemptRow:
        return AttemptRow(**self.fields)


def match_rows(rows: Sequence[AttemptRow], attempt: str) -> list[AttemptRow]:
    """Returns the rows of a chain or attempt; else those whose attempt's name, perhaps after a slash, begins so."""
    exact = [r for r in rows if attempt in (r.chain, r.attempt)]
    return exact or [r for r in rows if any(n.startswith(attempt) for n in (r.attempt, r.attempt.rpartition("/")[2]))]
