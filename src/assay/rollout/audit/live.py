"""The verdicts on integrity and on contracts that an attempt gets at its end, from what was recorded, not read back.

A `LiveRecord` is given each event as it is committed. The agent's actions are parsed then, once for all rules; at the
end the rules run over what is held. Rules that are not folded: all of them see the whole record, as in `assay audit`,
and each is linear in the steps.

Invariant: findings and verdicts are those of `assay audit` on the stored record at that moment.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from assay.analysis.actions import ActionReader
from assay.analysis.judge import INTEGRITY, Assessment, judge_integrity, judge_safety, rules
from assay.analysis.subject import Subject
from assay.errors import BoundaryError, VerifierError, boundary
from assay.gateway.call_tree import content_text
from assay.records import (
    GENESIS,
    Actor,
    AttemptEnded,
    Body,
    Event,
    ModelCall,
    ModelCalled,
    Noted,
    Step,
    StepAdded,
    Trajectory,
    Verdict,
)
from assay.rollout.audit.blob_texts import texts_of
from assay.rollout.recording.recorder import CALL_BEGUN, Recorder
from assay.store import AUDITED
from assay.store.assemble import assemble

MOST_BYTES: Final = 256 << 20
"""Bytes of encoded events up to which a record is held; a longer one is left to `assay audit`."""

MOST_INLINE: Final = 300
"""Steps up to which a record is judged on the event loop, at 0.1 ms a step; a longer one in a thread."""

MOST_INLINE_BYTES: Final = 2 << 20
"""The same in bytes: the steps of a hostile agent have any length."""


class LiveRecord:
    """Events of an attempt under way, as far as rules read them: of model calls only the results of tools."""

    def __init__(self, chain: str) -> None:
        self._chain = chain
        self._bodies: list[Body | _CallSummary] = []
        self._actions = ActionReader()
        self.bytes = 0
        """Size of what is held: events as they are encoded, and the texts of results."""
        self.problem = ""
        """The reason why the record was dropped; empty if it was not."""

    def add_committed(self, body: Body, raw: bytes, _: str) -> None:
        """Adds an event that was committed; a store's watcher, which raises nothing: others wait for the commit."""
        if self.problem:
            return
        if isinstance(body, ModelCalled):
            summary = _summarize_call(body.call)
            self._bodies.append(summary)
            self.bytes += sum(len(content_text(message.get("content"))) for message in summary.results)
        elif isinstance(body, Noted) and body.name == CALL_BEGUN:
            return
        else:
            if isinstance(body, StepAdded):
                self._read(body.step)
            self._bodies.append(body)
            self.bytes += len(raw)
        if self.bytes > MOST_BYTES:
            self._drop(f"more than {MOST_BYTES >> 20} MiB: `assay audit` judges so long a record")

    def _read(self, step: Step) -> None:
        try:
            with boundary(VerifierError, "reading a step"):
                self._actions.add(step)
        except BoundaryError as exc:
            self._drop(str(exc)[:500])

    def _drop(self, problem: str) -> None:
        self.problem = problem
        self._bodies, self._actions = [], ActionReader()

    def subject(self, recorder: Recorder, end: AttemptEnded) -> Subject:
        """Returns the record with its end as the rules' subject."""
        bodies = [body.restored() if isinstance(body, _CallSummary) else body for body in self._bodies]
        events = [Event(self._chain, index, GENESIS, body, GENESIS) for index, body in enumerate(bodies)]
        trajectory: Trajectory = replace(assemble(events), finished=end)
        return Subject(trajectory, self._actions.actions, texts_of(recorder.store.blobs))


class _CallSummary(msgspec.Struct, frozen=True, gc=False):
    """Contains what rules read of a call: its name, its place, and the tool messages in its request. A whole
    `ModelCall` takes three times the memory of it, and a long attempt has as many as steps."""

    id: str
    dialect: str
    model: str
    results: tuple[dict[str, Any], ...]
    lineage: dict[str, str]
    actor: Actor

    def restored(self) -> ModelCalled:
        request = {"messages": list(self.results)}
        return ModelCalled(
            ModelCall(self.id, self.dialect, self.model, request, None, lineage=self.lineage, actor=self.actor)
        )


def _summarize_call(call: ModelCall) -> _CallSummary:
    messages = call.request.get("messages")
    given = messages if isinstance(messages, list) else []
    results = [m for m in given if isinstance(m, dict) and m.get("role") == "tool"]
    return _CallSummary(call.id, call.dialect, call.model, tuple(results), call.lineage, call.actor)


async def judge_record(recorder: Recorder, record: LiveRecord, end: AttemptEnded) -> None:
    """Adds the verdicts on integrity and on each active contract to a record that lacks only its end.

    Process quality is judged by `assay audit`, since it compares attempts. Of a record that cannot be judged the
    verdict on integrity is `error`, so that its pass is doubted until `assay audit` judges it.

    Raises:
        StoreError: The record cannot be written.
    """
    await recorder.commit()
    if record.problem:
        _add_unjudged(recorder, record.problem)
        return
    try:
        with boundary(VerifierError, "judging the record"):
            if recorder.steps <= MOST_INLINE and record.bytes <= MOST_INLINE_BYTES:
                findings, verdicts = _judge(recorder, record, end)
            else:  # the loop serves other attempts meanwhile
                findings, verdicts = await asyncio.to_thread(_judge, recorder, record, end)
    except BoundaryError as exc:
        _add_unjudged(recorder, str(exc)[:500])
        return
    if findings:
        recorder.note(AUDITED, {"findings": msgspec.to_builtins(findings)})
    for verdict in verdicts:
        recorder.verdict(verdict)


def _add_unjudged(recorder: Recorder, error: str) -> None:
    recorder.note("not audited", {"error": error})
    recorder.verdict(Verdict(INTEGRITY, "integrity", "error", None, error, verifier=rules()))


def _judge(recorder: Recorder, record: LiveRecord, end: AttemptEnded) -> Assessment:
    subject = record.subject(recorder, end)
    found, integrity = judge_integrity(subject)
    safety = judge_safety(subject)
    return Assessment((*found, *safety.findings), (integrity, *safety.verdicts))
