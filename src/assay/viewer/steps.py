"""Lines of an attempt in full, a few dozen at a time, for the visible part of a page.

Long texts are truncated (`texts`), lists are bounded; the rest is marked as left out and can be requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from assay.analysis.actors import who
from assay.errors import StoreError, UserError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    ModelCall,
    Noted,
    Observation,
    Step,
    ToolCall,
    Truncation,
    Verdict,
)
from assay.records import EvidenceAdded as Added
from assay.records import ModelCalled as Called
from assay.records import StepAdded as Taken
from assay.records import VerdictAdded as Given
from assay.store import BlobStore
from assay.store.chain import decode_event

from .chains import Chain
from .interface import json_bytes
from .outline import Outline
from .pictures import is_picture
from .screens import render_screens
from .texts import cut_text, json_tree, pointer

AT_ONCE: Final = 40
"""Lines in a piece; pieces begin at its multiples."""
MOST_BYTES: Final = 16 << 20
"""Size of a piece's JSON; a line beyond it has the kind `large` and no content."""
MOST_CALLS = 40
MOST_TESTS = 300
MOST_BLOBS = 60
_PASSED = frozenset({"passed", "skipped", "xfailed"})


def render_lines(chain: Chain, outline: Outline, start: int) -> dict[str, Any]:
    """Renders a piece of an attempt.

    Returns:
        `start` and `lines`, one object a line with its `kind` and the number of its `event`.

    Raises:
        UserError: The piece does not exist.
        StoreError: It cannot be read.
    """
    if start % AT_ONCE or not 0 <= start < max(len(outline.events), 1):
        raise UserError(f"pieces of the attempt begin at every {AT_ONCE}th of its {len(outline.events)} lines")
    lines = range(start, min(start + AT_ONCE, len(outline.events)))
    named = {call_id: outline.lanes[outline.lanes_of[line]].agent for call_id, line in outline.call_lines.items()}
    agents = {call_id: name for call_id, name in named.items() if name}
    own = {outline.events[line] for line in lines}
    call_events = {outline.calls_of[line] for line in lines} - {-1}
    screens = _screens_of(chain, outline, lines)
    found: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    room = MOST_BYTES
    for link in chain.select_links(own | call_events):
        body = decode_event(link).body
        if link.index in call_events and isinstance(body, Called):
            calls[link.index] = call_summary(body.call, link.index, outline)
        if link.index in own:
            content = _body_json(body, chain.store.blobs, agents) | screens.render(link.index, body)
            size = len(json_bytes(content))
            found[link.index] = content if size <= room else {"kind": "large", "size": size}
            room -= size if size <= room else 0
    return {
        "start": start,
        "lines": [_numbered(line, outline, found, calls) for line in lines if outline.events[line] in found],
    }


class _Screens(NamedTuple):
    """The pages that a browser showed in the steps of a piece."""

    blobs: BlobStore
    events: Mapping[int, tuple[list[int], int]]
    """Event of a step to the events of its screens, and to that of the last one before them (-1: none)."""
    evidence: Mapping[int, Evidence]

    def render(self, event: int, body: Body) -> dict[str, Any]:
        """Returns the field `screens` of a step that has some."""
        if event not in self.events or not isinstance(body, Taken):
            return {}
        return {"screens": render_screens(body.step, *self.events[event], self.evidence, self.blobs)}


def _screens_of(chain: Chain, outline: Outline, lines: range) -> _Screens:
    """Reads the screens of the steps among some lines."""
    events: dict[int, tuple[list[int], int]] = {}
    before = -1
    for line, shown in outline.screens.items():
        if line in lines:
            events[outline.events[line]] = (shown, before)
        before = shown[-1]
    wanted = {event for shown, before in events.values() for event in (*shown, before)} - {-1}
    bodies = {link.index: decode_event(link).body for link in chain.select_links(wanted)} if wanted else {}
    evidence = {event: body.evidence for event, body in bodies.items() if isinstance(body, Added)}
    return _Screens(chain.store.blobs, events, evidence)


def _numbered(
    line: int, outline: Outline, rendered: Mapping[int, dict[str, Any]], calls: Mapping[int, dict[str, Any]]
) -> dict[str, Any]:
    event, call_events = outline.events[line], outline.calls_of[line]
    more = {"model_call": calls[call_events]} if call_events in calls else {}
    return {"line": line, "event": event, **rendered[event], **more}


def _body_json(body: Body, blobs: BlobStore, named: Mapping[str, str]) -> dict[str, Any]:
    match body:
        case Taken(step):
            return _step(step, named)
        case Called(call):
            return {"kind": "call", "call": call_summary(call, -1, None)}
        case Added(evidence):
            return _evidence(evidence, blobs)
        case Given(verdict):
            return {"kind": "verdict", "verdict": _verdict(verdict)}
        case Noted():
            return {"kind": "note", "name": body.name, "data": json_tree(_note_data(body), "/data"), "at": body.at}
        case AttemptStarted():
            return {"kind": "started", "data": json_tree(msgspec.to_builtins(body), "")}
        case AttemptEnded():
            return {"kind": "ended", "data": json_tree(msgspec.to_builtins(body), "")}


def _note_data(note: Noted) -> Any:
    """Returns a note's data; findings, which the page shows elsewhere, are only counted."""
    found = note.data.get("findings")
    return {"findings": len(found)} if note.name == "audited" and isinstance(found, list) else note.data


def _step(step: Step, named: Mapping[str, str]) -> dict[str, Any]:
    return {
        "kind": "step",
        "index": step.index,
        "actor": step.actor,
        "who": who(step, named),
        "message": None if step.message is None else cut_text(step.message, "/step/message"),
        "reasoning": None if step.reasoning is None else cut_text(step.reasoning, "/step/reasoning"),
        "calls": [_tool_call(call, at) for at, call in enumerate(step.tool_calls[:MOST_CALLS])],
        "seen": [_observation_json(seen, at) for at, seen in enumerate(step.observations[:MOST_CALLS])],
        "more": max(len(step.tool_calls), len(step.observations)) - MOST_CALLS,
        "call": step.call,
        "state": step.state,
        "started": step.started,
        "ended": step.ended,
        "extra": json_tree(step.extra, "/step/extra") if step.extra else None,
    }


def _tool_call(call: ToolCall, at: int) -> dict[str, Any]:
    where = pointer("step", "tool_calls", at)
    content: dict[str, Any] = {"id": call.id, "name": call.name, "error": call.error}
    if call.parsed is None:
        return content | {"arguments": cut_text(call.arguments, where + "/arguments")}
    return content | {"parsed": json_tree(call.parsed, where + "/parsed")}


def _observation_json(observation: Observation, at: int) -> dict[str, Any]:
    where = pointer("step", "observations", at)
    return {
        "call_id": observation.call_id,
        "content": cut_text(observation.content, where + "/content"),
        "stderr": cut_text(observation.stderr, where + "/stderr") if observation.stderr else None,
        "exit_code": observation.exit_code,
        "error": observation.error,
        "timed_out": observation.timed_out,
        "duration_s": observation.duration_s,
        "truncated": _truncation_json(observation.truncated),
        "stderr_truncated": _truncation_json(observation.stderr_truncated),
    }


def _truncation_json(cut_off: Truncation | None) -> dict[str, Any] | None:
    return None if cut_off is None else msgspec.to_builtins(cut_off)


def call_summary(call: ModelCall, event: int, outline: Outline | None) -> dict[str, Any]:
    """Returns a model call without its messages; `event` is -1 for a line of the call itself."""
    sampled = call.completion_token_ids
    parent = call.parent if outline is None or call.parent in outline.calls else None
    return {
        "id": call.id,
        "event": event,
        "model": call.model,
        "dialect": call.dialect,
        "usage": msgspec.to_builtins(call.usage),
        "cost_usd": call.cost_usd,
        "tries": call.tries,
        "error": None if call.error is None else cut_text(call.error, "/call/error"),
        "started": call.started,
        "ended": call.ended,
        "parent": parent,
        "shared_messages": call.shared_messages,
        "branch": call.branch,
        "cause": call.cause,
        "differs_at": call.differs_at,
        "certificate": None if call.certificate is None else msgspec.to_builtins(call.certificate),
        "sampled": None if sampled is None else len(sampled),
        "prompted": None if call.prompt_token_ids is None else call.shared_tokens + len(call.prompt_token_ids),
        "logprobs": call.logprobs is not None,
        "mean_logprob": sum(call.logprobs) / len(call.logprobs) if call.logprobs else None,
        "weight_version": call.weight_version,
        "delivered": call.delivered,
        "state": call.state,
        "sampling": json_tree(call.sampling, "/call/sampling"),
        "lineage": json_tree(dict(call.lineage), "/call/lineage") if call.lineage else None,
        "redactions": list(call.redactions[:20]),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(verdict)
    return plain | {
        "reason": cut_text(verdict.reason, "/verdict/reason"),
        "evidence": list(verdict.evidence[:MOST_BLOBS]),
    }


def _evidence(evidence: Evidence, blobs: BlobStore) -> dict[str, Any]:
    data = dict(evidence.data)
    content: dict[str, Any] = {
        "kind": "evidence",
        "id": evidence.id,
        "channel": evidence.channel,
        "type": evidence.kind,
    }
    tests = data.get("tests")
    if evidence.kind == "test_report" and isinstance(tests, list):
        del data["tests"]
        content["tests"] = _tests(tests)
    listed = evidence.blobs[:MOST_BLOBS]
    pictures = [digest for digest in listed if _shows_picture(blobs, digest)]
    return content | {
        "data": json_tree(data, "/evidence/data"),
        "blobs": list(listed),
        "more_blobs": len(evidence.blobs) - len(listed),
        "pictures": pictures,
        "at": evidence.at,
    }


def _shows_picture(blobs: BlobStore, digest: str) -> bool:
    try:
        with blobs.open(digest) as file:
            return is_picture(file.read(16))
    except (StoreError, OSError):  # a recorded address may be invalid
        return False


def _tests(tests: list[Any]) -> dict[str, Any]:
    """Returns tests with their status, the failed ones first."""
    named = [(str(t.get("id", ""))[:400], str(t.get("status", ""))[:40]) for t in tests if isinstance(t, dict)]
    named.sort(key=lambda test: test[1] in _PASSED)
    return {"shown": named[:MOST_TESTS], "left_out": max(len(named) - MOST_TESTS, 0)}
