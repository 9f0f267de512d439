"""Sessions of pi: JSONL whose entries form a tree by `id` and `parentId`, from a first line that names the session.

A result goes to the call that it names. What was said on a branch that was left is kept and marked
(`Step.extra["branch"] = "left"`). Reads and writes version 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import SingleFileFormat
from assay.formats.shared.builder import tool_call
from assay.formats.shared.json_stream import json_lines, json_objects, parse_time, warn_in
from assay.formats.shared.messages import actor_of, answered_call, content_text, iso_time
from assay.formats.shared.repeated_lines import unrepeated_lines
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    count_or_none,
    file_origin,
    number,
    objects_in,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, ModelCall, Observation, Step, Trajectory, Usage

_ENDED = {"stop": "the model ended its turn"}


class PiFormat(SingleFileFormat):
    name: ClassVar[str] = "pi"
    title: ClassVar[str] = "pi session (.jsonl)"
    provenance: ClassVar[Provenance] = "peer"
    added: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "id, parentId": "made of the line's number",
            "the first line": "a session begins with its version, id and folder (empty)",
        }
    )

    def recognises(self, path: Path) -> bool:
        first = sniff(path).first
        return isinstance(first, dict) and first.get("type") == "session" and {"version", "id", "cwd"} <= set(first)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Reads the file twice: abandoned branches are known only at its end."""
        bad = warn_in(reading, path.name)
        branch_ids = _main_branch_ids(line for _, line in json_lines(path, lambda *_: None))
        session = _Session(RoundTripBuilder(file_origin(self.name, path), reading, _render_entry), branch_ids)
        for line in json_objects(path, bad, lambda lines: unrepeated_lines(lines, reading, path.name, _is_named)):
            session.line(line)
        yield session.finish(path.stem)

    def write_file(self, trajectory: Trajectory, path: Path, writing: ExportContext, *, own: bool) -> None:
        with path.open("wb") as stream:
            before: str | None = None
            if not own:
                stream.write(msgspec.json.encode(_head(trajectory)) + b"\n")
            for position, item in enumerate(restore_items(trajectory, _render_entry, _plan_entries, writing, own=own)):
                if not own:
                    item = {**item, "id": f"{position:08x}", "parentId": before}
                    before = item["id"]
                stream.write(msgspec.json.encode(item) + b"\n")


def _head(trajectory: Trajectory) -> dict[str, Any]:
    name = f"{trajectory.attempt}.{trajectory.retry}"
    return {"type": "session", "version": 3, "id": name, "timestamp": iso_time(trajectory.started.at), "cwd": ""}


def _main_branch_ids(lines: Iterable[Any]) -> frozenset[str]:
    """Returns the ids of the entries that lead to the last one."""
    parents: dict[str, Any] = {}
    last: Any = None
    for line in lines:
        if isinstance(line, dict) and isinstance(name := line.get("id"), str) and line.get("type") != "session":
            parents[name] = line.get("parentId")
            last = name
    branch_ids: set[str] = set()
    while isinstance(last, str) and last in parents and last not in branch_ids:
        branch_ids.add(last)
        last = parents[last]
    return frozenset(branch_ids)


def _is_named(line: dict[str, Any]) -> bool:
    return isinstance(line.get("id"), str)


class _Session:
    """Reads the lines of a session."""

    def __init__(self, builder: RoundTripBuilder, branch_ids: frozenset[str]) -> None:
        self._builder, self._main_branch_ids = builder, branch_ids
        self._head: dict[str, Any] = {}
        self._model: str | None = None
        self._stop: str | None = None
        self._last: float | None = None

    def line(self, line: dict[str, Any]) -> None:
        at = parse_time(line.get("timestamp"))
        self._last = at if at is not None else self._last
        message = line.get("message")
        if line.get("type") == "message" and isinstance(message, dict):
            self._message(line, message, at)
            return
        if line.get("type") == "session" and not self._head:
            self._head = line
        elif line.get("type") == "model_change":
            self._model = text_or_none(line.get("modelId")) or self._model
        self._builder.keep_item(line)

    def _message(self, line: dict[str, Any], message: dict[str, Any], at: float | None) -> None:
        role = text_or_none(message.get("role")) or ""
        if role == "toolResult":
            call_id = text_or_none(message.get("toolCallId"))
            text = content_text(message.get("content")) or ""
            seen = Observation(text, call_id, error=message.get("isError") is True)
            self._builder.add_answer(seen, line, started=at)
            return
        left = isinstance(line.get("id"), str) and line["id"] not in self._main_branch_ids
        extra: dict[str, Any] = {"branch": "left"} if left else {}
        if role == "assistant":
            self._answer(line, message, at, extra)
            return
        extra |= {} if role == "user" else {"role": role}
        step = self._builder.add_step(actor_of(role), content_text(message.get("content")), started=at, extra=extra)
        self._builder.keep_item(line, "message", step)

    def _answer(self, line: dict[str, Any], message: dict[str, Any], at: float | None, extra: dict[str, Any]) -> None:
        self._stop = text_or_none(message.get("stopReason"))
        content = message.get("content")
        blocks = objects_in(content)
        calls = [
            tool_call(text_or_none(b.get("id")) or "", text_or_none(b.get("name")) or "", b.get("arguments"))
            for b in blocks
            if b.get("type") == "toolCall"
        ]
        step = self._builder.add_step(
            "agent",
            _join_blocks(blocks, "text"),
            reasoning=_join_blocks(blocks, "thinking"),
            tool_calls=tuple(calls),
            call=self._usage(message),
            started=at,
            extra=extra,
        )
        self._builder.keep_item(line, "message", step)

    def _usage(self, message: dict[str, Any]) -> str | None:
        self._model = text_or_none(message.get("model")) or self._model
        usage = message.get("usage")
        if not isinstance(usage, dict):
            return None
        new, cached, written = (count_or_none(usage.get(key)) for key in ("input", "cacheRead", "cacheWrite"))
        prompt = None if new is None else new + (cached or 0) + (written or 0)
        cost = usage.get("cost")
        entry = ModelCall(
            f"call-{len(self._builder.calls)}",
            text_or_none(message.get("api")) or "unknown",
            self._model or "unknown",
            {},
            {},
            usage=Usage(prompt, count_or_none(usage.get("output")), cached),
            cost_usd=number(cost.get("total")) if isinstance(cost, dict) else None,
        )
        return self._builder.add_call(entry)

    def finish(self, name: str) -> ImportedTrajectory:
        self._builder.fields = {"session": self._head} if self._head else {}
        stopped = "cancelled" if self._stop == "aborted" else None
        return self._builder.finish(
            f"session {text_or_none(self._head.get('id')) or name}",
            ended=AttemptEnded(ended=_ENDED.get(self._stop or ""), stopped=stopped, at=self._last),
            agent="pi",
            model=self._model,
            at=parse_time(self._head.get("timestamp")),
        )


def _join_blocks(blocks: list[dict[str, Any]], kind: str) -> str | None:
    texts = [block[kind] for block in blocks if block.get("type") == kind and isinstance(block.get(kind), str)]
    return "\n\n".join(texts) if texts else None


def _plan_entries(step: Step) -> Iterator[str]:
    """Yields the parts that a step is written as."""
    if step.actor != "environment" or step.message is not None or not step.observations:
        yield "message"
    yield from (f"result {i}" for i in range(len(step.observations)))


def _render_entry(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    entry = {"type": "message", "timestamp": iso_time(step.started)}
    kind, _, position = part.partition(" ")
    if kind == "result":
        seen = step.observations[int(position)]
        call_ = answered_call(step, int(position))
        name = "" if call_ is None else call_.name
        told = {"role": "toolResult", "toolCallId": seen.call_id, "toolName": name, "isError": seen.error}
        return {**entry, "message": {**told, "content": _texts(seen.content)}}
    if step.actor in {"agent", "other_agent"}:
        return {**entry, "message": _assistant_message(step, call)}
    role = step.extra.get("role") if step.actor == "environment" else "user"
    content = _texts(step.message) if step.message is not None else None
    return {**entry, "message": {"role": role if isinstance(role, str) else "custom", "content": content}}


def _texts(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def _assistant_message(step: Step, call: ModelCall | None) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    blocks += [{"type": "thinking", "thinking": step.reasoning}] if step.reasoning is not None else []
    blocks += _texts(step.message) if step.message is not None else []
    for asked in step.tool_calls:
        given = asked.parsed if asked.parsed is not None else asked.arguments
        blocks.append({"type": "toolCall", "id": asked.id, "name": asked.name, "arguments": given})
    entry: dict[str, Any] = {"role": "assistant", "content": blocks}
    if call is None:
        return entry
    counts = call.usage
    new = None if counts.prompt_tokens is None else max(counts.prompt_tokens - (counts.cached_tokens or 0), 0)
    usage = {"input": new, "output": counts.completion_tokens, "cacheRead": counts.cached_tokens}
    return {**entry, "api": call.dialect, "model": call.model, "usage": {**usage, "cost": {"total": call.cost_usd}}}
