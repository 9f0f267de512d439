"""ShareGPT: conversations of turns `{from, value}`, one a line or an array of them, as many fine-tuning sets have them.

A turn has no ids and holds one thing: so a step becomes a `gpt` turn, a `function_call` turn for each call and an
`observation` turn for each result, and calls that stand together are read as one step's again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.chat.format import ADDED, read_metadata, row_metadata, write_rows
from assay.formats.chat.rows import has_turns, iter_conversations
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin, tool_call
from assay.formats.shared.json_stream import loads, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    file_origin,
    is_imported_from,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import Actor, ModelCall, Step, ToolCall, Trajectory

_WRITTEN = Origin("sharegpt", "", "")
_AGENT, _USER = ("gpt", "assistant", "chatgpt", "bot"), ("human", "user")
_RESULT = ("observation", "tool", "function_response", "tool_response")


class ShareGptFormat:
    name: ClassVar[str] = "sharegpt"
    title: ClassVar[str] = "ShareGPT conversations"
    provenance: ClassVar[Provenance] = "specification"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        return has_turns(sniff(path), "conversations", "from", "value")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for where, row, turns in iter_conversations(path, "conversations", bad):
            with skip_unreadable(bad, where):
                yield _conversation(row, turns, where, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        write_rows(trajectories, target, lambda trajectory: _row(trajectory, writing))


def _conversation(
    row: dict[str, Any], turns: list[Any], where: str, origin: Origin, reading: ImportContext
) -> ImportedTrajectory:
    builder = RoundTripBuilder(origin, reading, _render_item)
    bad = warn_in(reading, origin.file)
    speaking = _TurnReader(builder)
    if isinstance(row.get("system"), str):
        builder.add_step("environment", row["system"], extra={"role": "system"})
    for position, turn in enumerate(turns):
        value = turn.get("value") if isinstance(turn, dict) else None
        if isinstance(turn, dict) and isinstance(value, str) and isinstance(turn.get("from"), str):
            speaking.turn(turn, turn["from"], value)
        else:
            bad(f"{where}.conversations[{position}]", "expected an object with `from` and `value` texts")
            builder.keep_item(turn)
    builder.fields = {key: value for key, value in row.items() if key != "conversations"}
    return builder.finish(where, **read_metadata(row, builder))


class _TurnReader:
    """Combines turns into steps."""

    def __init__(self, builder: RoundTripBuilder) -> None:
        self._builder = builder
        self._calls = 0
        self._open: Step | None = None
        """The agent's step that a `function_call` may still belong to; None after an observation."""

    def turn(self, turn: dict[str, Any], who: str, value: str) -> None:
        builder = self._builder
        if who == "function_call":
            self._call(turn, value)
            return
        if who in _RESULT:
            builder.add_answer(builder.make_observation(value), turn)
            self._open = None
            return
        actor: Actor = "agent" if who in _AGENT else ("user" if who in _USER else "environment")
        step = builder.add_step(actor, value, extra={"role": who} if actor == "environment" else {})
        builder.keep_item(turn, "message", step)
        self._open = step if actor == "agent" else None

    def _call(self, turn: dict[str, Any], value: str) -> None:
        self._calls += 1
        step = self._open or self._builder.add_step("agent")
        grown = self._builder.extend_step(
            step, tool_calls=(*step.tool_calls, _parse_call(f"call_{self._calls}", value))
        )
        self._builder.keep_item(turn, f"call {len(grown.tool_calls) - 1}", grown)
        self._open = grown


def _parse_call(id_: str, value: str) -> ToolCall:
    try:
        found = loads(value)
    except ValueError as exc:
        return ToolCall(id_, "", value, None, f"the call is not JSON: {exc}")
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return ToolCall(id_, "", value, None, "the call has no name")
    return tool_call(id_, found["name"], found.get("arguments", found.get("parameters")))


def _render_item(step: Step, part: str, _call: ModelCall | None = None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    if kind == "call":
        call = step.tool_calls[int(position)]
        arguments: Any = call.arguments if call.parsed is None else call.parsed
        value = msgspec.json.encode({"name": call.name, "arguments": arguments}).decode()
        return {"from": "function_call", "value": value}
    if kind == "result":
        return {"from": "observation", "value": step.observations[int(position)].content}
    role = text_or_none(step.extra.get("role")) or "system"
    who = {"agent": "gpt", "other_agent": "gpt", "user": "human"}.get(step.actor, role)
    return {"from": who, "value": step.message or ""}


def _plan_items(step: Step) -> Iterator[str]:
    if step.message or not (step.tool_calls or step.observations):
        yield "message"
    yield from (f"call {i}" for i in range(len(step.tool_calls)))
    yield from (f"result {i}" for i in range(len(step.observations)))


def _row(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    mine = is_imported_from(trajectory, ShareGptFormat.name)
    turns = list(restore_items(trajectory, _render_item, _plan_items, writing, own=mine))
    if mine:
        report_losses(trajectory, None, writing, ShareGptFormat.name)
        return {"conversations": turns, **source_fields(trajectory)}
    row = {"conversations": turns, "metadata": row_metadata(trajectory)}
    back = _conversation(row, turns, "", _WRITTEN, THROWAWAY)
    report_losses(trajectory, back, writing, ShareGptFormat.name, added=ADDED)
    return row
