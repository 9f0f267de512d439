"""Plain chat: conversations of OpenAI messages with tools, one a line (or an array of them), as trainers take them.

Reads and writes `{messages, tools, ...}`; other columns are kept and written again. What a run of ours says beside its
messages (task, agent, model, outcome, integrity) is written into the column `metadata`, and read from there as a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Origin
from assay.formats.shared.losses import THROWAWAY, tell_losses
from assay.formats.shared.messages import chat_item, chat_plan, read_message
from assay.formats.shared.mirror import items_of
from assay.formats.shared.mirrored import Mirrored, fields_of, number, origin_of, own, text_or_none, whole_number
from assay.formats.shared.reading import Bad, at_place, json_items, json_lines
from assay.formats.shared.sniffing import Sniffed, sniff
from assay.formats.shared.writing import new_file, outcome_verdict
from assay.records import Trajectory
from assay.verdicts import current_verdicts_of, trust_of

__all__ = ["Chat", "conversations", "has_turns", "metadata_of", "read_metadata", "write_rows"]

_WRITTEN = Origin("chat", "", "")
_STATUSES = ("pass", "fail", "unknown", "error")


class Chat:
    """See the module."""

    name: ClassVar[str] = "chat"
    title: ClassVar[str] = "Chat JSONL, conversations of OpenAI messages with tools"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = True
    generic: ClassVar[bool] = True
    """Other formats have messages too: one that knows a file better goes first."""

    def recognises(self, path: Path) -> bool:
        """Objects with an array `messages` of objects with a `role`."""
        return has_turns(sniff(path), "messages", "role")

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        """One trajectory for each row, in the order of the file."""
        origin, bad = origin_of(self.name, path), at_place(reading, path.name)
        for place, row, messages in conversations(path, "messages", bad):
            yield _conversation(row, messages, place, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        """One line for each trajectory."""
        write_rows(trajectories, target, lambda trajectory: _row(trajectory, writing))


def has_turns(seen: Sniffed, name: str, *fields: str) -> bool:
    """Whether a file's objects have an array of objects with these fields; an array that is empty will do."""
    start = {"array": f"[].{name}", "lines": name, "object": name}.get(seen.shape)
    if start is None or start not in seen.paths or start in seen.values:
        return False
    inside = any(path.startswith((f"{start}[", f"{start}.")) for path in seen.paths)
    return seen.has(*(f"{start}[].{field}" for field in fields)) or not inside


def conversations(path: Path, name: str, bad: Bad) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """Where each row stands, the row, and its array of that name; a row without one is told."""
    for place, row in _rows(path, bad):
        turns = row.get(name) if isinstance(row, dict) else None
        if isinstance(turns, list):
            yield place, row, turns
        else:
            bad(place, f"expected an object with an array of {name}")


def _rows(path: Path, bad: Bad) -> Iterator[tuple[str, Any]]:
    """The rows of a file of lines, or of one array."""
    if sniff(path).shape == "array":
        for position, row in json_items(path, (), bad):
            yield f"[{position}]", row
        return
    for number_, row in json_lines(path, bad):
        yield f"line {number_}", row


def write_rows(trajectories: Iterable[Trajectory], target: Path, row: Any) -> None:
    """Writes JSON lines. Raises `UserError` where `target` exists."""
    with new_file(target) as stream:
        for trajectory in trajectories:
            stream.write(msgspec.json.encode(row(trajectory)) + b"\n")


def _conversation(row: dict[str, Any], messages: list[Any], place: str, origin: Origin, reading: Reading) -> Imported:
    built = Mirrored(origin, reading, chat_item)
    bad = at_place(reading, origin.file)
    for position, message in enumerate(messages):
        read_message(built, message, bad, f"{place}.messages[{position}]")
        if not isinstance(message, dict):
            built.item(message)
    built.fields = {key: value for key, value in row.items() if key != "messages"}
    return built.done(place, **read_metadata(row, built))


def read_metadata(row: dict[str, Any], built: Mirrored) -> dict[str, Any]:
    """What a row says of the attempt as a whole, for `Building.done`; an outcome that it claims becomes a verdict."""
    words = row.get("metadata")
    words = words if isinstance(words, dict) else {}
    outcome = words.get("outcome")
    if outcome in _STATUSES:
        built.verdict(outcome, number(words.get("score")), "as the row's metadata has it")
    model = text_or_none(words.get("model")) or text_or_none(row.get("model"))
    started: dict[str, Any] = {"task": text_or_none(words.get("task")), "model": model}
    started |= {"agent": text_or_none(words.get("agent")) or "unknown"}
    return started | {"number": whole_number(words.get("number")) or 0}


def metadata_of(trajectory: Trajectory) -> dict[str, Any]:
    """What a row says of a run of ours, its integrity among it: a pass that lacks it is never a plain pass."""
    verdict = outcome_verdict(trajectory)
    current = current_verdicts_of(trajectory)
    why = trust_of(trajectory).doubt
    doubted = why is not None
    words: dict[str, Any] = {"attempt": trajectory.attempt, "task": trajectory.task, "agent": trajectory.agent}
    words |= {"model": trajectory.model, "number": trajectory.number, "integrity": current.integrity, "doubt": why}
    words |= {"claimed_outcome" if doubted else "outcome": trajectory.outcome}
    words |= {"claimed_score" if doubted else "score": verdict.score if verdict is not None else None}
    return {name: value for name, value in words.items() if value is not None}


def _row(trajectory: Trajectory, writing: Writing) -> dict[str, Any]:
    mine = own(trajectory, Chat.name)
    messages = list(items_of(trajectory, chat_item, chat_plan, writing, own=mine))
    if mine:
        tell_losses(trajectory, None, writing, Chat.name)
        return {"messages": messages, **fields_of(trajectory)}
    tools = next((t for call in trajectory.calls if isinstance(t := call.request.get("tools"), list)), None)
    row = {"messages": messages, **({"tools": tools} if tools else {}), "metadata": metadata_of(trajectory)}
    tell_losses(trajectory, _conversation(row, messages, "", _WRITTEN, THROWAWAY), writing, Chat.name)
    return row
