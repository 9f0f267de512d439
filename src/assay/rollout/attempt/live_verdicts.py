"""What the rules say of an attempt at its end, before its chain is closed: integrity, and each contract that held.

Not the quality of its process, which is judged against other attempts: `assay audit` does that. A judgement that fails
by itself leaves the attempt as it is, and a note.
"""

from __future__ import annotations

from typing import Final

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.judge import Judged, judge_integrity, judge_safety
from assay.analysis.subject import Subject
from assay.errors import BoundaryError, VerifierError, boundary
from assay.records import AttemptEnded
from assay.rollout.auditing import AUDITED, texts_of
from assay.rollout.recording.recorder import Recorder

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


def _judged(subject: Subject) -> Judged:
    found, integrity = judge_integrity(subject)
    safety = judge_safety(subject)
    return Judged((*found, *safety.findings), (integrity, *safety.verdicts))
