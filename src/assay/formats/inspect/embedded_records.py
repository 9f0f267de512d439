"""Assay's own records inside an Inspect log, and back.

A turn is written as the messages that show it, a call as a model event, anything else as an info event. Fields that
Inspect lacks are stored under `assay`: in the metadata of messages and events, and in an info event's data. Reading
such a log restores the records; like all of a log, they are claims.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.errors import AssayError
from assay.formats.inspect.chat import observation_of, reasoning_of, render_message, tool_calls_of, unindex_tool_calls
from assay.formats.interface import ExportContext, ImportContext, Loss, ReadProblem
from assay.formats.shared.builder import split_text_parts
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip import diff_json, patch_json, truncate_observations
from assay.records import (
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    Noted,
    Observation,
    Step,
    Verdict,
    VerdictAdded,
    digest_bytes,
)
from assay.verdicts import IMPORTED, is_imported

ASSAY = "assay"
"""Key of Assay's fields in a log."""
MOST_EMBEDDED = 4 << 20
"""Largest blob that is written into a log, in bytes."""
_SOURCES: dict[str, type[Any]] = {"evidence": Evidence, "verdict": Verdict, "note": Noted}
_LISTS = ("tool_calls", "observations")
_ACTORS = {"assistant": "agent", "user": "user"}


def turn_fields(message: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of `Step` that a message shows, unless it is a tool's result."""
    role = message.get("role")
    return {
        "actor": _ACTORS.get(str(role), "environment"),
        "message": split_text_parts(message.get("content"))[0],
        "reasoning": reasoning_of(message),
        "tool_calls": tool_calls_of(message),
        "extra": {} if role in _ACTORS else {"role": role},
    }


def step_from_messages(parts: list[dict[str, Any]], index: int) -> Step:
    """Converts the messages of one turn to a step."""
    told = [m for m in parts if m.get("role") != "tool"]
    obs = tuple(observation_of(m) for m in parts if m.get("role") == "tool")
    fields = turn_fields(told[0]) if told else {"actor": "environment"}
    return Step(index, observations=obs, **fields)


def step_messages(step: Step, index: int, writing: ExportContext, attempt: str) -> list[dict[str, Any]]:
    """Returns the messages that show a turn; the first one holds its other fields."""
    full = msgspec.structs.replace(
        step, observations=tuple(_restore_texts(o, writing, attempt) for o in step.observations)
    )
    observations = tuple(_drop_missing_whole(o, f) for o, f in zip(step.observations, full.observations, strict=True))
    step = msgspec.structs.replace(step, observations=observations)
    names = [f"result {number}" for number in range(len(step.observations))]
    if step.actor != "environment" or step.message is not None or not names:
        names.insert(0, "message")
    parts = [dict(unindex_tool_calls(render_message(full, name))) for name in names]
    base = truncate_observations(step_from_messages(parts, index), ImportContext(digest_bytes, _ignore))
    rest = diff_json(_index_lists(step), _index_lists(base))
    parts[0]["metadata"] = {ASSAY: {"parts": len(parts), **({"step": rest} if rest is not None else {})}}
    return parts


def _ignore(_what: ReadProblem) -> None:
    return None


def _restore_texts(obs: Observation, writing: ExportContext, attempt: str) -> Observation:
    """Restores truncated texts; keeps the truncated text, and reports a loss, where the blob is gone."""
    texts = {
        "content": (obs.content, obs.truncated),
        "stderr": (obs.stderr, obs.stderr_truncated),
    }
    found: dict[str, Any] = {}
    for name, (text, cut) in texts.items():
        try:
            found[name] = text if cut is None else writing.read_blob(cut.digest).decode("utf-8", "replace")
        except (AssayError, KeyError, OSError):
            writing.report_loss(Loss(attempt, f"steps[].observations[].{name}", "the store has only part of the text"))
            found[name] = text
    return msgspec.structs.replace(obs, **found)


def _drop_missing_whole(obs: Observation, full: Observation) -> Observation:
    """Drops truncations whose whole text is missing."""
    if obs.truncated is not None and full.content == obs.content:
        obs = msgspec.structs.replace(obs, truncated=None)
    if obs.stderr_truncated is not None and full.stderr == obs.stderr:
        obs = msgspec.structs.replace(obs, stderr_truncated=None)
    return obs


def _index_lists(step: Step) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(step)
    for name in _LISTS:
        if name in plain:
            plain[name] = {str(number): item for number, item in enumerate(plain[name])}
    return plain


def restore_step(parts: list[dict[str, Any]], index: int, reading: ImportContext, bad: WarnFunction) -> Step | None:
    """Restores a turn from messages that Assay wrote; None where they do not fit."""
    own = (parts[0].get("metadata") or {}).get(ASSAY) or {}
    base = truncate_observations(step_from_messages(parts, index), reading)
    try:
        plain = patch_json(_index_lists(base), own.get("step"))
        for name in _LISTS:
            if name in plain:
                plain[name] = list(plain[name].values())
        return msgspec.convert(plain, Step)
    except (msgspec.ValidationError, AttributeError, TypeError) as exc:
        bad("messages: metadata.assay", f"no step: {exc}")
        return None


def read_own_call(event: dict[str, Any], used_ids: set[str]) -> ModelCall | None:
    """Returns the call in a model event that Assay wrote; None if it has none, or its id is used."""
    metadata = event.get("metadata")
    held = metadata.get(ASSAY) if isinstance(metadata, dict) else None
    if not isinstance(held, dict):
        return None
    try:
        call = msgspec.convert(held, ModelCall)
    except msgspec.ValidationError:
        return None
    return call if call.dialect != "inspect" and call.id not in used_ids else None


def call_metadata(call: ModelCall, attempt: str, writing: ExportContext) -> dict[str, Any]:
    """Returns a call as metadata of a model event."""
    if call.raw_request is not None or call.raw_response is not None:
        writing.report_loss(Loss(attempt, "calls[].raw_request, raw_response", "Inspect cannot store exact bytes"))
        call = msgspec.structs.replace(call, raw_request=None, raw_response=None)
    plain: dict[str, Any] = msgspec.to_builtins(call)
    return plain


def info_event(
    kind: str, record: Evidence | Verdict | Noted, at: str, writing: ExportContext, attempt: str
) -> dict[str, Any]:
    """Returns an info event that holds a record, and its blobs up to `MOST_EMBEDDED` bytes each."""
    data: dict[str, Any] = {"record": msgspec.to_builtins(record)}
    if isinstance(record, Evidence) and record.blobs:
        held = dict(_embedded(record, writing, attempt))
        data["record"] = msgspec.to_builtins(msgspec.structs.replace(record, blobs=tuple(held)))
        data |= {"blobs": held} if held else {}
    return {"event": "info", "source": f"{ASSAY}.{kind}", "data": data, "timestamp": at, "working_start": 0.0}


def _embedded(fact: Evidence, writing: ExportContext, attempt: str) -> Iterator[tuple[str, str]]:
    for digest in dict.fromkeys(fact.blobs):
        try:
            content = writing.read_blob(digest)
        except (AssayError, KeyError, OSError):
            writing.report_loss(Loss(attempt, "evidence[].blobs", "the store does not have it"))
            continue
        if len(content) > MOST_EMBEDDED:
            writing.report_loss(Loss(attempt, "evidence[].blobs", f"it has more than {MOST_EMBEDDED:,} bytes"))
            continue
        yield digest, b64encode(content).decode()


def read_record(event: dict[str, Any], reading: ImportContext) -> Body:
    """Returns the record in an info event that Assay wrote. Raises `ValueError` if the event holds no valid record."""
    kind = _SOURCES.get(str(event.get("source")).removeprefix(ASSAY + "."))
    data = event.get("data")
    if kind is None or not isinstance(data, dict):
        raise ValueError("it holds no Assay record")
    try:
        found = msgspec.convert(data.get("record"), kind)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None
    if isinstance(found, Evidence):
        return EvidenceAdded(_with_blobs(found, data.get("blobs"), reading))
    if isinstance(found, Verdict):
        marks = found.marks if is_imported(found.marks) else (*found.marks, IMPORTED)
        return VerdictAdded(msgspec.structs.replace(found, marks=marks))
    assert isinstance(found, Noted)
    return found


def _with_blobs(fact: Evidence, embedded: Any, reading: ImportContext) -> Evidence:
    given = embedded if isinstance(embedded, dict) else {}
    for digest in fact.blobs:
        try:
            content = b64decode(str(given.get(digest, "")), validate=True)
        except (Base64Error, ValueError):
            content = b""
        if digest not in given or reading.store_blob(content) != digest:
            raise ValueError(f"evidence {fact.id} names {digest}, and the log does not hold that content")
    return fact
