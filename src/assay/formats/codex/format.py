"""Codex sessions: `rollout-*.jsonl`, the items of a conversation between the events of the program that led it.

Reads the present form (lines of `timestamp`, `type`, `payload`) and the first one (bare items). Consecutive items of
the model are one step until a result, a user's message or a report of tokens ends it. Exit codes and durations come
from the program's events, else from what a result says of itself. A sub-agent's session is a file, and a trajectory,
of its own that names its parent (`fields["meta"]`). Writes the present form. The present one was tested on what Codex
wrote itself, the first one on its description alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.codex.items import CommandEnd, apply_end, command_end, parse_output
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import SingleFileFormat
from assay.formats.shared.builder import tool_call
from assay.formats.shared.json_stream import json_objects, parse_time, warn_in
from assay.formats.shared.messages import actor_of, content_text, iso_time, role_of
from assay.formats.shared.repeated_lines import unrepeated_lines
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    count_or_none,
    file_origin,
    text_or_empty,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, ModelCall, Observation, Step, ToolCall, Trajectory, Usage

_LINES = {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
_TIMED = {"session_meta", "response_item", "turn_context", "token_usage_record", "compacted"}
_BARE = {"message", "reasoning", "function_call", "function_call_output", "local_shell_call"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "web_search_call"}
_RESULTS = {"function_call_output", "custom_tool_call_output"}
_INJECTED = ("<environment_context>", "<user_instructions>", "<subagent_notification>", "# AGENTS.md instructions")
"""Beginnings of messages that the program adds in the user's name."""
_LARGE_META = ("base_instructions", "instructions", "dynamic_tools")


class CodexFormat(SingleFileFormat):
    name: ClassVar[str] = "codex"
    title: ClassVar[str] = "Codex session (rollout-*.jsonl)"
    provenance: ClassVar[Provenance] = "peer"
    added: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "the first line": "a session begins with its metadata",
        }
    )

    def recognises(self, path: Path) -> bool:
        first = sniff(path).first
        if not isinstance(first, dict):
            return False
        if isinstance(first.get("payload"), dict):
            return text_or_empty(first.get("type")) in _LINES and "timestamp" in first
        return "instructions" in first and "timestamp" in first and "id" in first

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        session = _Session(RoundTripBuilder(file_origin(self.name, path), reading, _render_line))
        for line in json_objects(path, bad, lambda lines: unrepeated_lines(lines, reading, path.name, _is_named)):
            session.line(line)
        yield session.finish(path)

    def write_file(self, trajectory: Trajectory, path: Path, writing: ExportContext, *, own: bool) -> None:
        with path.open("wb") as stream:
            if not own:
                stream.write(msgspec.json.encode(_render_meta(trajectory)) + b"\n")
            for item in restore_items(trajectory, _render_line, _plan_lines, writing, own=own):
                stream.write(msgspec.json.encode(item) + b"\n")


def _is_named(line: dict[str, Any]) -> bool:
    """Returns whether a line is one of the conversation with its time, which no other line repeats."""
    return isinstance(line.get("timestamp"), str) and text_or_empty(line.get("type")) in _TIMED


class _Session:
    """Reads the lines of a session."""

    def __init__(self, builder: RoundTripBuilder) -> None:
        self._builder = builder
        self._step: Step | None = None
        """The agent's open step."""
        self._ends: dict[str, CommandEnd] = {}
        self._meta: dict[str, Any] = {}
        self._model: str | None = None
        self._ended: str | None = None
        self._stopped: str | None = None
        self._last: float | None = None

    def line(self, line: dict[str, Any]) -> None:
        payload = line.get("payload")
        kind, at = text_or_empty(line.get("type")), parse_time(line.get("timestamp"))
        self._last = at if at is not None else self._last
        if not isinstance(payload, dict):
            payload = line
            kind = "response_item" if kind in _BARE else ("session_meta" if "instructions" in line else kind)
        if kind == "response_item" and self._item(payload, line, at):
            return
        if kind == "session_meta" and self._meta and payload.get("id") != self._meta.get("id"):
            name = text_or_empty(payload.get("id"))[:60]
            self._builder.remark(f"session {name}", "begins within another session: its turns are read as that one's")
        elif kind == "session_meta" and not self._meta:
            self._meta = {key: value for key, value in payload.items() if key not in _LARGE_META}
        elif kind == "turn_context":
            self._model = text_or_none(payload.get("model")) or self._model
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "token_usage_record":
            self._usage(payload.get("response_id"), payload.get("usage"))
        self._builder.keep_item(line, "other", self._step)

    def _item(self, item: dict[str, Any], line: dict[str, Any], at: float | None) -> bool:
        """Reads an item of the conversation; returns False where no step holds it."""
        kind = text_or_empty(item.get("type"))
        if kind == "message":
            self._message(item, line, at)
        elif kind == "reasoning":
            step = self._open_step(at, fits=lambda s: s.reasoning is None and s.message is None and not s.tool_calls)
            self._grow(step, line, "reasoning", reasoning=_text(item.get("content")) or _text(item.get("summary")))
        elif kind in _CALLS:
            self._call(item, line, at)
        elif kind in _RESULTS:
            self._result(item, line, at)
        else:
            return False
        return True

    def _message(self, item: dict[str, Any], line: dict[str, Any], at: float | None) -> None:
        role, text = text_or_none(item.get("role")) or "", _text(item.get("content"))
        if role == "assistant":
            step = self._open_step(at, fits=lambda s: s.message is None and not s.tool_calls)
            self._grow(step, line, "message", message=text)
            return
        self._step = None
        told = role == "user" and (text or "").startswith(_INJECTED)
        extra = {"role": role} if told or role != "user" else {}
        made = self._builder.add_step("environment" if told else actor_of(role), text, started=at, extra=extra)
        self._builder.keep_item(line, "message", made)

    def _call(self, item: dict[str, Any], line: dict[str, Any], at: float | None) -> None:
        step = self._open_step(at, fits=lambda _: True)
        made = _tool_call(item, len(step.tool_calls))
        self._grow(step, line, f"call {len(step.tool_calls)}", tool_calls=(*step.tool_calls, made))

    def _result(self, item: dict[str, Any], line: dict[str, Any], at: float | None) -> None:
        call_id = text_or_none(item.get("call_id"))
        obs = apply_end(parse_output(item.get("output"), call_id), self._ends.pop(call_id or "", None))
        self._step = None
        self._builder.add_answer(obs, line, started=at)

    def _open_step(self, at: float | None, *, fits: Any) -> Step:
        step = self._step
        if step is None or self._builder.is_full(step) or not fits(step):
            step = self._builder.add_step("agent", started=at)
        self._step = step
        return step

    def _grow(self, step: Step, line: dict[str, Any], part: str, **named: Any) -> None:
        self._step = self._builder.extend_step(step, **named)
        self._builder.keep_item(line, part, self._step)

    def _event(self, payload: dict[str, Any]) -> None:
        kind = text_or_empty(payload.get("type"))
        found = command_end(payload)
        if found is not None and not self._builder.amend_result(found[0], lambda obs: apply_end(obs, found[1])):
            self._ends[found[0]] = found[1]
        elif kind == "token_count":
            told = payload.get("info")
            self._usage(None, told.get("last_token_usage") if isinstance(told, dict) else None)
        elif kind == "task_complete":
            self._ended = "the task was completed"
        elif kind in {"turn_aborted", "shutdown_complete"}:
            self._stopped = "cancelled" if kind == "turn_aborted" else self._stopped

    def _usage(self, response: Any, usage: Any) -> None:
        """Adds the tokens of the last answer: from its own report, else (older) from the running count."""
        step = next((s for s in reversed(self._builder.steps) if s.actor == "agent"), None)
        if not isinstance(usage, dict) or step is None or step.call is not None:
            return
        told = Usage(*(count_or_none(usage.get(key)) for key in _USAGE))
        made = ModelCall(
            text_or_none(response) or f"call-{step.index}",
            "openai-responses",
            self._model or "unknown",
            {},
            {},
            usage=told,
            ended=self._last,
        )
        self._builder.change_step(self._builder.steps[step.index], call=self._builder.add_call(made))
        self._step = None

    def finish(self, path: Path) -> ImportedTrajectory:
        self._builder.fields = {"meta": self._meta} if self._meta else {}
        key = text_or_none(self._meta.get("id")) or path.stem
        return self._builder.finish(
            f"session {key}",
            ended=AttemptEnded(ended=self._ended, stopped=None if self._ended else self._stopped, at=self._last),
            agent="codex",
            model=self._model,
            at=parse_time(self._meta.get("timestamp")),
        )


_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return "\n".join(texts) if texts else None
    return content_text(content)


def _tool_call(item: dict[str, Any], position: int) -> ToolCall:
    kind, call_id = (
        text_or_empty(item.get("type")),
        text_or_none(item.get("call_id", item.get("id"))) or f"call-{position}",
    )
    name = text_or_none(item.get("name")) or str(kind).removesuffix("_call")
    if kind == "custom_tool_call":
        return tool_call(call_id, name, {"input": item.get("input")})
    if kind in {"local_shell_call", "web_search_call"}:
        action = item.get("action")
        return tool_call(call_id, name, action if isinstance(action, dict) else {"action": action})
    return tool_call(call_id, name, item.get("arguments"))


def _plan_lines(step: Step) -> Iterator[str]:
    """Yields the parts that a step is written as."""
    if step.reasoning is not None:
        yield "reasoning"
    if step.message is not None or not (step.tool_calls or step.observations or step.reasoning):
        yield "message"
    yield from (f"call {i}" for i in range(len(step.tool_calls)))
    if step.call is not None:
        yield "usage"
    for position in range(len(step.observations)):
        yield f"end {position}"
        yield f"result {position}"


def _render_line(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    at = int(position or 0)
    if kind == "usage":
        return _line(step, "token_usage_record", _usage_payload(call))
    if kind == "end":
        return _line(step, "event_msg", _end_payload(step.observations[at]))
    return _line(step, "response_item", _payload(step, kind, at))


def _line(step: Step, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": iso_time(step.started), "type": kind, "payload": payload}


def _payload(step: Step, kind: str, at: int) -> dict[str, Any]:
    if kind == "reasoning":
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": step.reasoning}], "content": None}
    if kind == "call":
        call = step.tool_calls[at]
        return {"type": "function_call", "name": call.name, "arguments": call.arguments, "call_id": call.id}
    if kind == "result":
        obs = step.observations[at]
        return {"type": "function_call_output", "call_id": obs.call_id, "output": obs.content}
    role = role_of(step, "developer")
    part = "output_text" if role == "assistant" else "input_text"
    content = [{"type": part, "text": step.message}] if step.message is not None else []
    return {"type": "message", "role": role, "content": content}


def _end_payload(obs: Observation) -> dict[str, Any]:
    made = {"type": "exec_command_end", "call_id": obs.call_id, "exit_code": obs.exit_code}
    duration = obs.duration_s if obs.duration_s is not None and 0 <= obs.duration_s < 1e9 else None
    if duration is None:
        return made
    return {**made, "duration": {"secs": int(duration), "nanos": round(duration % 1 * 1e9)}}


def _usage_payload(call: ModelCall | None) -> dict[str, Any]:
    if call is None:
        return {"usage": None}
    counts = (
        call.usage.prompt_tokens,
        call.usage.completion_tokens,
        call.usage.cached_tokens,
        call.usage.reasoning_tokens,
    )
    return {"response_id": call.id, "usage": dict(zip(_USAGE, counts, strict=True))}


def _render_meta(trajectory: Trajectory) -> dict[str, Any]:
    when = iso_time(trajectory.started.at) or iso_time(0.0)
    payload = {"id": f"{trajectory.attempt}.{trajectory.retry}", "timestamp": when, "originator": "assay"}
    payload |= {"model": trajectory.model} if trajectory.model is not None else {}
    return {"timestamp": when, "type": "session_meta", "payload": payload}
