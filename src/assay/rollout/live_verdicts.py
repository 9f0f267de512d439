"""What the rules say of an attempt at its end, before its chain is closed: integrity, and each contract that held.

Not the quality of its process, which is judged against other attempts: `assay audit` does that. A judgement that fails
by itself leaves the attempt as it is, and a note.
"""

from __future__ import annotations

from typing import Final

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.contracts import findings_of_contract, verdict_of_contract
from assay.analysis.interface import Finding
from assay.analysis.judge import contracts_in, judge_integrity
from assay.analysis.subject import Subject
from assay.errors import BoundaryError, VerifierError, boundary
from assay.records import AttemptEnded, Verdict

from .auditing import AUDITED, texts_of
from .recorder import Recorder

__all__ = ["judge_record"]

MOST_STEPS: Final = 300
"""Judging takes about a millisecond a step, in which no other attempt of the run goes on."""


def judge_record(recorder: Recorder, end: AttemptEnded) -> None:
    """Adds the verdicts on a record that is whole but for its end.

    Raises:
        StoreError: The record cannot be written or read.
    """
    if recorder.steps > MOST_STEPS:
        recorder.note("not audited", {"error": f"{recorder.steps} steps: `assay audit` judges so long a record"})
        return
    recorder.flush()
    recorded = recorder.store.trajectory(recorder.chain)
    trajectory = msgspec.structs.replace(recorded, finished=end)
    try:
        with boundary(VerifierError, "judging the record"):
            subject = Subject(trajectory, actions_of(trajectory), texts_of(recorder.store.blobs))
            findings, verdicts = _judged(subject)
    except BoundaryError as exc:
        recorder.note("not audited", {"error": str(exc)[:500]})
        return
    if findings:
        recorder.note(AUDITED, {"findings": msgspec.to_builtins(findings)})
    for verdict in verdicts:
        recorder.verdict(verdict)


def _judged(subject: Subject) -> tuple[list[Finding], list[Verdict]]:
    found, integrity = judge_integrity(subject)
    findings, verdicts = list(found), [integrity]
    for contract in contracts_in(subject):
        against = findings_of_contract(contract, subject)
        findings += against
        verdicts.append(verdict_of_contract(contract, subject, against))
    return findings, verdicts
