"""Plain chat: conversations of OpenAI messages with tools, one a line (or an array of them), as trainers take them.

Reads and writes `{messages, tools, ...}`; other columns are kept and written again. What a run of ours says beside its
messages (task, agent, model, outcome, integrity) is written into the column `metadata`, and read from there as a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import WarnFunction, json_items, json_lines, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.messages import plan_chat_messages, read_message, render_chat_message
from assay.formats.shared.output_files import new_file, outcome_verdict
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    count_or_none,
    file_origin,
    is_imported_from,
    number,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import SniffResult, sniff
from assay.records import Trajectory
from assay.verdicts import current_verdicts_of, trust_of

_WRITTEN = Origin("chat", "", "")
_STATUSES = ("pass", "fail", "unknown", "error")


class ChatFormat:
    name: ClassVar[str] = "chat"
    title: ClassVar[str] = "Chat JSONL, conversations of OpenAI messages with tools"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = True
    generic: ClassVar[bool] = True
    """Other formats have messages too; a more specific one is preferred."""

    def recognises(self, path: Path) -> bool:
        return has_turns(sniff(path), "messages", "role")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for where, row, messages in iter_conversations(path, "messages", bad):
            yield _conversation(row, messages, where, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        write_rows(trajectories, target, lambda trajectory: _row(trajectory, writing))


def has_turns(sniffed: SniffResult, name: str, *fields: str) -> bool:
    """Returns whether a file's objects have an array of objects with these fields, or an empty array."""
    start = {"array": f"[].{name}", "lines": name, "object": name}.get(sniffed.shape)
    if start is None or start not in sniffed.paths or start in sniffed.values:
        return False
    inside = any(path.startswith((f"{start}[", f"{start}.")) for path in sniffed.paths)
    return sniffed.has(*(f"{start}[].{field}" for field in fields)) or not inside


def iter_conversations(path: Path, name: str, bad: WarnFunction) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """Yields the place of each row, the row, and its array of that name; warns of rows without one."""
    for where, row in _rows(path, bad):
        turns = row.get(name) if isinstance(row, dict) else None
        if isinstance(turns, list):
            yield where, row, turns
        else:
            bad(where, f"expected an object with an array of {name}")


def _rows(path: Path, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
    """Yields the rows of a file of lines, or of one array."""
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


def _conversation(
    row: dict[str, Any], messages: list[Any], where: str, origin: Origin, reading: ImportContext
) -> ImportedTrajectory:
    builder = RoundTripBuilder(origin, reading, render_chat_message)
    bad = warn_in(reading, origin.file)
    for position, message in enumerate(messages):
        read_message(builder, message, bad, f"{where}.messages[{position}]")
        if not isinstance(message, dict):
            builder.keep_item(message)
    builder.fields = {key: value for key, value in row.items() if key != "messages"}
    return builder.finish(where, **read_metadata(row, builder))


def read_metadata(row: dict[str, Any], builder: RoundTripBuilder) -> dict[str, Any]:
    """Returns a row's facts of the attempt, for `TrajectoryBuilder.finish`; a claimed outcome becomes a verdict."""
    words = row.get("metadata")
    words = words if isinstance(words, dict) else {}
    outcome = words.get("outcome")
    if outcome in _STATUSES:
        builder.add_verdict(outcome, number(words.get("score")), "as the row's metadata has it")
    model = text_or_none(words.get("model")) or text_or_none(row.get("model"))
    started: dict[str, Any] = {"task": text_or_none(words.get("task")), "model": model}
    started |= {"agent": text_or_none(words.get("agent")) or "unknown"}
    return started | {"number": count_or_none(words.get("number")) or 0}


def row_metadata(trajectory: Trajectory) -> dict[str, Any]:
    """Returns a trajectory's metadata, with its integrity: a pass that lacks it is never written as a plain pass."""
    verdict = outcome_verdict(trajectory)
    current = current_verdicts_of(trajectory)
    why = trust_of(trajectory).doubt
    doubted = why is not None
    words: dict[str, Any] = {"attempt": trajectory.attempt, "task": trajectory.task, "agent": trajectory.agent}
    words |= {"model": trajectory.model, "number": trajectory.number, "integrity": current.integrity, "doubt": why}
    words |= {"claimed_outcome" if doubted else "outcome": trajectory.outcome}
    words |= {"claimed_score" if doubted else "score": verdict.score if verdict is not None else None}
    return {name: value for name, value in words.items() if value is not None}


def _row(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    mine = is_imported_from(trajectory, ChatFormat.name)
    messages = list(restore_items(trajectory, render_chat_message, plan_chat_messages, writing, own=mine))
    if mine:
        report_losses(trajectory, None, writing, ChatFormat.name)
        return {"messages": messages, **source_fields(trajectory)}
    tools = next((t for call in trajectory.calls if isinstance(t := call.request.get("tools"), list)), None)
    row = {"messages": messages, **({"tools": tools} if tools else {}), "metadata": row_metadata(trajectory)}
    report_losses(trajectory, _conversation(row, messages, "", _WRITTEN, THROWAWAY), writing, ChatFormat.name)
    return row
