"""ShareGPT: conversations of turns `{from, value}`, one a line or an array of them, as many fine-tuning sets have them.

A turn has no ids and holds one thing: so a step becomes a `gpt` turn, a `function_call` turn for each call and an
`observation` turn for each result, and calls that stand together are read as one step's again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.chat.format import conversations, has_turns, metadata_of, read_metadata, write_rows
from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Origin, tool_call
from assay.formats.shared.losses import THROWAWAY, tell_losses
from assay.formats.shared.mirror import items_of
from assay.formats.shared.mirrored import Mirrored, fields_of, origin_of, own, text_or_none
from assay.formats.shared.reading import at_place, loads
from assay.formats.shared.sniffing import sniff
from assay.records import Actor, ModelCall, Step, ToolCall, Trajectory

__all__ = ["ShareGpt"]

_WRITTEN = Origin("sharegpt", "", "")
_AGENT, _USER = ("gpt", "assistant", "chatgpt", "bot"), ("human", "user")
_RESULT = ("observation", "tool", "function_response", "tool_response")


class ShareGpt:
    """See the module."""

    name: ClassVar[str] = "sharegpt"
    title: ClassVar[str] = "ShareGPT conversations"
    provenance: ClassVar[Provenance] = "specification"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        """Objects with an array `conversations` of objects with `from` and `value`."""
        return has_turns(sniff(path), "conversations", "from", "value")

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        """One trajectory for each conversation, in the order of the file."""
        origin, bad = origin_of(self.name, path), at_place(reading, path.name)
        for place, row, turns in conversations(path, "conversations", bad):
            yield _conversation(row, turns, place, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        """One line for each trajectory."""
        write_rows(trajectories, target, lambda trajectory: _row(trajectory, writing))


def _conversation(row: dict[str, Any], turns: list[Any], place: str, origin: Origin, reading: Reading) -> Imported:
    built = Mirrored(origin, reading, _item)
    bad = at_place(reading, origin.file)
    speaking = _Speaking(built)
    if isinstance(row.get("system"), str):
        built.step("environment", row["system"], extra={"role": "system"})
    for position, turn in enumerate(turns):
        value = turn.get("value") if isinstance(turn, dict) else None
        if isinstance(turn, dict) and isinstance(value, str) and isinstance(turn.get("from"), str):
            speaking.turn(turn, turn["from"], value)
        else:
            bad(f"{place}.conversations[{position}]", "expected an object with the texts from and value")
            built.item(turn)
    built.fields = {key: value for key, value in row.items() if key != "conversations"}
    return built.done(place, **read_metadata(row, built))


class _Speaking:
    """Turns, put together to steps."""

    def __init__(self, built: Mirrored) -> None:
        self._built = built
        self._calls = 0
        self._open: Step | None = None
        """The agent's step that a `function_call` may still belong to: nothing was observed since."""

    def turn(self, turn: dict[str, Any], who: str, value: str) -> None:
        built = self._built
        if who == "function_call":
            self._call(turn, value)
            return
        if who in _RESULT:
            built.answer(built.observation(value), turn)
            self._open = None
            return
        actor: Actor = "agent" if who in _AGENT else ("user" if who in _USER else "environment")
        step = built.step(actor, value, extra={"role": who} if actor == "environment" else {})
        built.item(turn, "message", step)
        self._open = step if actor == "agent" else None

    def _call(self, turn: dict[str, Any], value: str) -> None:
        self._calls += 1
        step = self._open or self._built.step("agent")
        grown = self._built.grow(step, tool_calls=(*step.tool_calls, _called(f"call_{self._calls}", value)))
        self._built.item(turn, f"call {len(grown.tool_calls) - 1}", grown)
        self._open = grown


def _called(id_: str, value: str) -> ToolCall:
    try:
        found = loads(value)
    except ValueError as exc:
        return ToolCall(id_, "", value, None, f"the call is no JSON: {exc}")
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return ToolCall(id_, "", value, None, "the call has no name")
    return tool_call(id_, found["name"], found.get("arguments", found.get("parameters")))


def _item(step: Step, part: str, _call: ModelCall | None = None) -> dict[str, Any]:
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


def _plan(step: Step) -> Iterator[str]:
    if step.message or not (step.tool_calls or step.observations):
        yield "message"
    yield from (f"call {i}" for i in range(len(step.tool_calls)))
    yield from (f"result {i}" for i in range(len(step.observations)))


def _row(trajectory: Trajectory, writing: Writing) -> dict[str, Any]:
    mine = own(trajectory, ShareGpt.name)
    turns = list(items_of(trajectory, _item, _plan, writing, own=mine))
    if mine:
        tell_losses(trajectory, None, writing, ShareGpt.name)
        return {"conversations": turns, **fields_of(trajectory)}
    row = {"conversations": turns, "metadata": metadata_of(trajectory)}
    tell_losses(trajectory, _conversation(row, turns, "", _WRITTEN, THROWAWAY), writing, ShareGpt.name)
    return row
