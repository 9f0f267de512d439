"""The verdicts that count now: of each check the newest, of each kind the worst, without a record's praise of itself.

Two orders apply. An *outcome* is the worst in the order error, unknown, fail, pass: where one check could not judge,
the attempt is not decided. *Process, integrity and safety* use fail, error, unknown, pass: what one check observed is
not undone by what another could not tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from assay.records import Separation, Trajectory, VerdictKind, VerdictStatus

from .names import REVERIFICATIONS, Reverification, is_imported, is_reverification, outcome_verdicts, recorded_check
from .separation import SEPARATIONS, weakest

_OUTCOME_ORDER: tuple[VerdictStatus, ...] = ("error", "unknown", "fail", "pass")
_FINDING_ORDER: tuple[VerdictStatus, ...] = ("fail", "error", "unknown", "pass")


class Judgement(Protocol):
    """The fields of a verdict that decide whether a pass is believed (`records.Verdict`, `store.Judged`)."""

    @property
    def check(self) -> str: ...
    @property
    def kind(self) -> VerdictKind: ...
    @property
    def status(self) -> VerdictStatus: ...
    @property
    def score(self) -> float | None: ...
    @property
    def marks(self) -> tuple[str, ...]: ...
    @property
    def separation(self) -> Separation: ...


class CurrentVerdicts(msgspec.Struct, frozen=True, gc=False):
    """An attempt's outcome as first judged, and the current state of everything else that was judged."""

    outcome: VerdictStatus | None
    """Outcome as first judged; later verdicts do not change it."""
    score: float | None
    reverified: Reverification | None
    """Result of judging the stored state again; None where it was not."""
    integrity: VerdictStatus | None
    process: VerdictStatus | None
    safety: VerdictStatus | None
    scores: dict[str, float] = {}
    """The newest score of each process check that gave one."""
    separation: Separation = "unknown"
    """Grade of the outcome (`outcome_separation`)."""


def worst_outcome(statuses: Iterable[VerdictStatus]) -> VerdictStatus | None:
    """Returns the worst status of outcome checks, in the order error, unknown, fail, pass; None for no status."""
    return min(statuses, key=_OUTCOME_ORDER.index, default=None)


def worst_finding(statuses: Iterable[VerdictStatus]) -> VerdictStatus | None:
    """Returns the worst status of process, integrity or safety checks, in the order fail, error, unknown, pass."""
    return min(statuses, key=_FINDING_ORDER.index, default=None)


def is_own_praise(verdict: Judgement) -> bool:
    """Returns whether an imported verdict vouches for its own record: that it has integrity, is safe, or was judged
    again and agreed. An imported verdict against an attempt counts; one that confirms it does not."""
    if not verdict.marks or not is_imported(verdict.marks):
        return False
    return "agree" in verdict.marks or (verdict.kind != "outcome" and verdict.status == "pass")


def recorded_separation(verdict: Judgement) -> Separation:
    """Returns the grade of an outcome check's verdict; `unknown` for an imported one, whatever it claims."""
    return "unknown" if is_imported(verdict.marks) else verdict.separation


def outcome_separation(verdicts: Iterable[Judgement]) -> Separation:
    """Returns the weakest grade over outcome checks; `unknown` for none.

    A check has the grade of its newest verdict (`recorded_separation`). One whose newest re-verification here agrees
    has the stronger of both grades: the stored state was judged once more, at that grade.
    """
    recorded: dict[str, Separation] = {}
    again: dict[str, Separation] = {}
    for verdict in verdicts:
        if verdict.kind != "outcome":
            continue
        name = recorded_check(verdict.check)
        if name == verdict.check:
            recorded[name] = recorded_separation(verdict)
        elif not is_imported(verdict.marks):
            again[name] = verdict.separation if "agree" in verdict.marks else "unknown"
    if not again:
        return weakest(recorded.values())
    return weakest(_stronger(grade, again.get(name, "unknown")) for name, grade in recorded.items())


def _stronger(one: Separation, other: Separation) -> Separation:
    return min(one, other, key=SEPARATIONS.index)


def current_verdicts(
    outcome: VerdictStatus | None, score: float | None, verdicts: Iterable[Judgement]
) -> CurrentVerdicts:
    """Returns the current verdicts of one attempt.

    Args:
        outcome: As first judged (`Trajectory.outcome`, `AttemptRow.outcome`).
        score: Of the outcome.
        verdicts: All verdicts on the attempt, oldest first, later ones included.
    """
    every = list(verdicts)
    newest = {(v.kind, v.check): v for v in every if not is_own_praise(v)}
    statuses: dict[VerdictKind, list[VerdictStatus]] = {}
    results: set[str] = set()
    scores: dict[str, float] = {}
    for verdict in newest.values():
        if is_reverification(verdict.check):
            results.update(verdict.marks)
        else:
            statuses.setdefault(verdict.kind, []).append(verdict.status)
        if verdict.kind == "process" and verdict.score is not None:
            scores[verdict.check] = verdict.score
    return CurrentVerdicts(
        outcome=outcome,
        score=score,
        reverified=next((result for result in REVERIFICATIONS if result in results), None) if results else None,
        integrity=worst_finding(statuses.get("integrity", ())),
        process=worst_finding(statuses.get("process", ())),
        safety=worst_finding(statuses.get("safety", ())),
        scores=scores,
        separation=outcome_separation(every),
    )


def current_verdicts_of(trajectory: Trajectory, later: Collection[Judgement] = ()) -> CurrentVerdicts:
    """Returns the current verdicts of a trajectory, and of verdicts given after it was read."""
    scores = [v.score for v in outcome_verdicts(trajectory.verdicts) if v.score is not None]
    return current_verdicts(trajectory.outcome, min(scores, default=None), (*trajectory.verdicts, *later))
