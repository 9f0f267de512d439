"""Renders a trajectory as an Inspect sample: restored if it came from Inspect, else newly made.

Messages that Inspect repeats with every call are stored once, in pools that events reference by range (`events_data`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import msgspec

from assay.errors import AssayError
from assay.formats.inspect.chat import REST, from_chat, render_message, unindex_tool_calls
from assay.formats.inspect.embedded_records import ASSAY, call_metadata, info_event, step_messages
from assay.formats.inspect.events import NOTE, pack_ranges, render_evidence_event, render_model_event
from assay.formats.inspect.samples import ranges
from assay.formats.inspect.scores import is_own_verdict, visible_value
from assay.formats.interface import ExportContext, Loss
from assay.formats.shared.conversations import message_numbers
from assay.formats.shared.losses import report_additions
from assay.formats.shared.round_trip import ITEMS, patch_json, restore_observations
from assay.formats.shared.round_trip_builder import is_imported_from, source_fields
from assay.records import Evidence, ModelCall, Step, Trajectory, Verdict, canonical_bytes

FORMAT = "inspect"
_NAN = msgspec.Raw(b"NaN")
_LIMITS = {
    "wall_s": "time",
    "working_s": "working",
    "messages": "message",
    "tokens": "token",
    "turns": "turn",
    "cost_usd": "cost",
    "cancelled": "operator",
}


def iso(at: float | None) -> str:
    """Formats a time as Inspect does; the Unix epoch where it is unknown."""
    try:
        return datetime.fromtimestamp(at or 0.0, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat()


def render_sample(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    """Returns the sample, ready to be encoded, with its `id` and `epoch`."""
    ours = is_imported_from(trajectory, FORMAT)
    held = source_fields(trajectory).get("sample") if ours else None
    fields = dict(held) if isinstance(held, dict) else _new_sample_fields(trajectory)
    if held is None:
        report_additions(trajectory, writing, _ADDED)
    pool = _Pool()
    messages = _messages(trajectory, writing)
    events, requests = _events(trajectory, pool, writing)
    scores = _scores(trajectory)
    fields |= {"scores": scores} if scores or "scores" in fields else {}
    doubt = next((v for v in trajectory.verdicts if _denies(trajectory, v)), None)
    if doubt is not None and not fields.get("invalidation"):
        at = iso(trajectory.finished.at if trajectory.finished else None)
        fields["invalidation"] = {"timestamp": at, "author": ASSAY, "reason": doubt.reason, "metadata": {}}
    data = {"messages": pool.messages, "calls": requests}
    return {**fields, "messages": messages, "events": events, "attachments": {}, "events_data": data}


_ADDED = MappingProxyType(
    {
        "eval": "required: run, task, model and agent of the first attempt",
        "results": "accuracy and standard error of each scorer over the samples",
        "samples[].limit.limit": "required where a limit stopped the attempt: -1",
        "samples[].output.choices[].stop_reason": "required: `unknown`",
        "samples[].target": "required: empty",
    }
)


def _denies(trajectory: Trajectory, verdict: Verdict) -> bool:
    return verdict.kind == "integrity" and verdict.status == "fail" and not is_own_verdict(trajectory, verdict)


class _Pool:
    """Unique messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._known: dict[bytes, int] = {}

    def number(self, chat: dict[str, Any]) -> int:
        key = blake2b(canonical_bytes(chat), digest_size=16).digest()
        if key not in self._known:
            self._known[key] = len(self.messages)
            self.messages.append(from_chat(chat))
        return self._known[key]


def _new_sample_fields(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the fields of a sample that did not come from Inspect."""
    started, finished = trajectory.started, trajectory.finished
    asked = next((s.message for s in trajectory.steps if s.actor == "user" and s.message), "")
    last = next((s for s in reversed(trajectory.steps) if s.actor == "agent"), None)
    answer = {"role": "assistant", "content": last.message or ""} if last is not None else None
    choices = [{"message": answer, "stop_reason": "unknown"}] if answer else []
    fields: dict[str, Any] = {
        "id": trajectory.task,
        "epoch": trajectory.number + 1,
        "input": asked,
        "target": "",
        "output": {
            "model": trajectory.model or "",
            "choices": choices,
            "completion": answer["content"] if answer else "",
        },
        "metadata": {ASSAY: {"started": msgspec.to_builtins(started), "finished": msgspec.to_builtins(finished)}},
        "store": {},
        "model_usage": _usage(trajectory),
    }
    fields |= {"started_at": iso(started.at)} if started.at is not None else {}
    if finished is None:
        return fields
    fields |= {"completed_at": iso(finished.at)} if finished.at is not None else {}
    if finished.broke is not None:
        message = f"{finished.broke}: {finished.error or ''}"
        fields["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    if finished.stopped is not None:
        # A limit needs a number here, and a record of ours holds it elsewhere, if at all.
        kind = _LIMITS.get(finished.stopped, "custom")
        fields["limit"] = {"type": kind, "limit": -1.0, "reason": f"{finished.stopped} (the value is not recorded)"}
    return fields


def _usage(trajectory: Trajectory) -> dict[str, Any]:
    totals: dict[str, list[int]] = {}
    for call in trajectory.calls:
        if call.usage.prompt_tokens is not None or call.usage.completion_tokens is not None:
            total = totals.setdefault(call.model, [0, 0])
            total[0] += call.usage.prompt_tokens or 0
            total[1] += call.usage.completion_tokens or 0
    return {m: {"input_tokens": a, "output_tokens": b, "total_tokens": a + b} for m, (a, b) in totals.items()}


# Messages


def _messages(trajectory: Trajectory, writing: ExportContext) -> list[Any]:
    placed: list[tuple[int, Any]] = []
    added: list[Any] = []
    for index, step in enumerate(trajectory.steps):
        items = step.extra.get(ITEMS)
        if isinstance(items, list):
            full = _restore_step(step, writing, trajectory.attempt)
            placed += [
                (int(i["at"]), unindex_tool_calls(_render_item(full, i))) for i in items if i.get("in", "") == ""
            ]
        elif not step.extra.get("beside"):
            added += step_messages(step, index, writing, trajectory.attempt)
    return [message for _, message in sorted(placed, key=lambda one: one[0])] + added


def _render_item(step: Step, item: dict[str, Any]) -> Any:
    return patch_json(render_message(step, str(item["as"])), item.get("rest"))


def _restore_step(step: Step, writing: ExportContext, attempt: str) -> Step:
    try:
        return restore_observations(step, writing)
    except (AssayError, KeyError, OSError):
        writing.report_loss(Loss(attempt, "steps[].observations[].content", "the store has only part of the text"))
        return step


# Events


def _events(trajectory: Trajectory, pool: _Pool, writing: ExportContext) -> tuple[list[Any], list[Any]]:
    """Returns the events, and the messages that raw requests reference by range."""
    placed: list[tuple[int, Any]] = []
    requests: list[Any] = []
    renderer = _ModelEvents(trajectory, pool, writing)
    ours = [call for call in trajectory.calls if _event_position(call) is not None]
    for call in sorted(ours, key=lambda c: _event_position(c) or 0):
        placed.append((_event_position(call) or 0, renderer.restore_event(call, requests)))
    for fact in trajectory.evidence:
        held = fact.data.get(REST)
        if isinstance(held, dict) and "at" in held and "scorer" not in fact.data:
            event = patch_json(
                render_evidence_event(_restore_evidence(fact, writing, trajectory.attempt)), held.get("rest")
            )
            placed.append((int(held["at"]), event))
    for note in trajectory.notes:
        if note.name.startswith(NOTE) and "event" in note.data:
            placed.append((int(note.data.get("at", 0)), note.data["event"]))
    added = [renderer.render_event(call) for call in trajectory.calls if _event_position(call) is None]
    added += list(_info_events(trajectory, writing))
    return [event for _, event in sorted(placed, key=lambda one: one[0])] + added, requests


def _event_position(call: ModelCall) -> int | None:
    held = call.request.get(REST) if call.dialect == FORMAT else None
    return int(held["at"]) if isinstance(held, dict) and "at" in held else None


def _info_events(trajectory: Trajectory, writing: ExportContext) -> Iterator[dict[str, Any]]:
    """Yields events for Assay's evidence, notes and verdicts."""
    at, attempt = iso(trajectory.started.at), trajectory.attempt
    for fact in trajectory.evidence:
        if REST not in fact.data:
            yield info_event("evidence", fact, at, writing, attempt)
    for note in trajectory.notes:
        if not note.name.startswith(NOTE):
            yield info_event("note", note, at, writing, attempt)
    for verdict in trajectory.verdicts:
        if not is_own_verdict(trajectory, verdict):
            yield info_event("verdict", verdict, at, writing, attempt)


def _restore_evidence(fact: Evidence, writing: ExportContext, attempt: str) -> Evidence:
    cut = fact.data.get("truncated")
    if not isinstance(cut, dict):
        return fact
    name = "stdout" if "stdout" in fact.data else "text"
    try:
        text = writing.read_blob(str(cut.get("digest"))).decode("utf-8", "replace")
    except (AssayError, KeyError, OSError):
        writing.report_loss(Loss(attempt, f"evidence[].{name}", "the store has only part of the text"))
        return fact
    return msgspec.structs.replace(fact, data={**fact.data, name: text})


class _ModelEvents:
    """Writes the calls of one trajectory."""

    def __init__(self, trajectory: Trajectory, pool: _Pool, writing: ExportContext) -> None:
        self._by_id = {call.id: call for call in trajectory.calls}
        self._keys = message_numbers(trajectory.calls, pool.number)
        self._attempt, self._writing = trajectory.attempt, writing
        self._started = trajectory.started.at

    def restore_event(self, call: ModelCall, requests: list[Any]) -> dict[str, Any]:
        """Restores the event of a call that came from Inspect."""
        held = call.request[REST]
        event: dict[str, Any] = patch_json(render_model_event(call, self._tools(call)), held.get("rest"))
        event["input"], event["input_refs"] = [], pack_ranges(self._keys[call.id])
        wire = held.get("wire")
        if isinstance(wire, dict) and isinstance(event.get("call"), dict):
            requests += wire.get("new", [])
            if ranges(wire.get("refs"), len(requests)):
                event["call"] = {**event["call"], "call_refs": wire["refs"], "call_key": wire["key"]}
        return event

    def render_event(self, call: ModelCall) -> dict[str, Any]:
        """Renders an event for another call, with the call in its metadata."""
        event = render_model_event(call, self._tools(call))
        event["input"], event["input_refs"] = [], pack_ranges(self._keys[call.id])
        event["timestamp"] = iso(call.started if call.started is not None else self._started)
        event["working_start"] = 0.0
        event |= {"completed": iso(call.ended)} if call.ended is not None else {}
        event["metadata"] = {ASSAY: call_metadata(call, self._attempt, self._writing)}
        return event

    def _tools(self, call: ModelCall) -> list[Any]:
        """Returns the tools that a call was offered, inherited from its parents if shared."""
        seen: set[str] = set()
        found: ModelCall | None = call
        while found is not None and "tools" in found.shared_fields and found.id not in seen:
            seen.add(found.id)
            found = self._by_id.get(found.parent or "")
        tools = found.request.get("tools") if found is not None else None
        return tools if isinstance(tools, list) else []


# Scores


def _scores(trajectory: Trajectory) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for fact in trajectory.evidence:
        if REST in fact.data and "scorer" in fact.data:
            found[str(fact.data["scorer"])] = _with_nan(fact.data[REST])
    for verdict in trajectory.verdicts:
        if verdict.kind == "outcome" and not is_own_verdict(trajectory, verdict):
            value = visible_value(verdict)
            name = _free_name(verdict.check, found)
            metadata = {ASSAY: {"status": verdict.status}}
            found[name] = {
                "value": _NAN if value is None else value,
                "explanation": verdict.reason,
                "metadata": metadata,
            }
    return found


def _with_nan(score: Any) -> Any:
    """Restores NaN, which JSON lacks and Inspect writes, as a score's value."""
    if isinstance(score, dict) and score.get("value") == "NaN":
        return {**score, "value": _NAN}
    return score


def _free_name(name: str, used: dict[str, Any]) -> str:
    number, found = 2, name
    while found in used:
        number, found = number + 1, f"{name} {number}"
    return found


def render_summary(sample: dict[str, Any]) -> dict[str, Any]:
    """Returns a sample's entry in the list of samples."""
    copied = ("id", "epoch", "target", "choices", "model_usage", "role_usage", "started_at", "completed_at", "uuid")
    found = {key: sample[key] for key in (*copied, "total_time", "working_time") if sample.get(key) is not None}
    found["input"] = _shorten(sample["input"]) if isinstance(sample.get("input"), str) else ""
    found["metadata"] = {
        k: _shorten(v) for k, v in (sample.get("metadata") or {}).items() if isinstance(v, str | int | float)
    }
    found["scores"] = {name: _shorten_score(score) for name, score in (sample.get("scores") or {}).items()}
    error, limit = sample.get("error"), sample.get("limit")
    found |= {"error": _shorten(str(error.get("message")))} if isinstance(error, dict) else {}
    found |= {"limit": str(limit.get("type"))} if isinstance(limit, dict) else {}
    return found | {"completed": True, "message_count": len(sample["messages"])}


def _shorten_score(score: Any) -> Any:
    if not isinstance(score, dict):
        return score
    return {key: _shorten(score[key]) for key in ("value", "answer", "explanation") if score.get(key) is not None}


def _shorten(value: Any) -> Any:
    return value[:1000] if isinstance(value, str) else value
