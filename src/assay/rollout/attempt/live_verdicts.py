"""Verdicts on an attempt's record before its chain is closed: integrity and each active contract.

Process quality is judged by `assay audit`, since it compares attempts. A failing judgement leaves a note only.
"""

from __future__ import annotations

from typing import Final

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.judge import Assessment, judge_integrity, judge_safety
from assay.analysis.subject import Subject
from assay.errors import BoundaryError, VerifierError, boundary
from assay.records import AttemptEnded
from assay.rollout.auditing import texts_of
from assay.rollout.recording.recorder import Recorder
from assay.store import AUDITED

MOST_STEPS: Final = 300
"""Judging takes about a millisecond per step and blocks the event loop."""


def judge_record(recorder: Recorder, end: AttemptEnded) -> None:
    """Adds the verdicts to a record that lacks only its end.

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
            findings, verdicts = _judge_subject(subject)
    except BoundaryError as exc:
        recorder.note("not audited", {"error": str(exc)[:500]})
        return
    if findings:
        recorder.note(AUDITED, {"findings": msgspec.to_builtins(findings)})
    for verdict in verdicts:
        recorder.verdict(verdict)


def _judge_subject(subject: Subject) -> Assessment:
    found, integrity = judge_integrity(subject)
    safety = judge_safety(subject)
    return Assessment((*found, *safety.findings), (integrity, *safety.verdicts))
