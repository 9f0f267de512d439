"""Plain chat: conversations of OpenAI or Anthropic messages, one a line (or an array, or one document), as trainers and
logs of model calls have them.

Reads and writes `{messages, tools, ...}`; other columns are kept and written again. An answer beside the messages
(`response` of LiteLLM, `outputs` of DSPy) is read as the last turn. Also reads bare lists of messages, and logs of
requests with their responses (`{request: {messages}, response}`). The facts of a run of ours (task, agent, model,
outcome, integrity) are written into the column `metadata`, and read from there as a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.chat.answers import answer_of, call_of, end_of
from assay.formats.chat.rows import has_field, has_turns, is_message_list, iter_conversations
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import WarnFunction, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.messages import (
    KNOWN_ROLES,
    content_text,
    plan_chat_messages,
    read_message,
    render_chat_message,
)
from assay.formats.shared.outcomes import is_outcome
from assay.formats.shared.output_files import new_file, outcome_verdict
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    count_or_none,
    file_origin,
    get_path,
    is_imported_from,
    number,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.tools import recorded_tools
from assay.records import Trajectory
from assay.verdicts import current_verdicts_of, trust_of

_WRITTEN = Origin("chat", "", "")
ADDED = MappingProxyType({"metadata": "facts of the attempt: task, agent, model, outcome, integrity"})
_STATUSES = ("pass", "fail", "unknown", "error")


class ChatFormat:
    name: ClassVar[str] = "chat"
    title: ClassVar[str] = "Chat JSONL, conversations of OpenAI or Anthropic messages"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = True
    generic: ClassVar[bool] = True
    """Other formats have messages too; a more specific one is preferred."""

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return (
            has_turns(seen, "messages", "role")
            or is_message_list(seen)
            or (has_turns(seen, "request.messages", "role") and has_field(seen, "response"))
        )

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for where, row, messages in iter_conversations(path, "messages", bad):
            with skip_unreadable(bad, where):
                yield _conversation(row, messages, where, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        write_rows(trajectories, target, lambda trajectory: _row(trajectory, writing))


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
    if (prompt := content_text(row.get("system"))) is not None:
        builder.add_step("environment", prompt, extra={"role": "system"})
    for position, message in enumerate(messages):
        at = f"{where}.messages[{position}]"
        read_message(builder, message, bad, at)
        if not isinstance(message, dict):
            builder.keep_item(message)
        elif isinstance(role := message.get("role"), str) and role not in KNOWN_ROLES:
            builder.remark(at, f"the role {role[:50]!r} is unknown: read as a message of the environment")
    _read_answer(builder, row, messages, bad, where)
    builder.fields = {key: value for key, value in row.items() if key != "messages"}
    return builder.finish(where or "conversation", ended=end_of(row), **read_metadata(row, builder))


def _read_answer(
    builder: RoundTripBuilder, row: dict[str, Any], messages: list[Any], bad: WarnFunction, where: str
) -> None:
    """Adds the answer that stands beside the messages, and the row's model call."""
    call, answer = call_of(row), answer_of(row, messages)
    choices = get_path(row, "response", "choices")
    if isinstance(choices, list) and len(choices) > 1:
        builder.remark(f"{where}.response", f"of {len(choices)} choices the first is read; the others are kept")
    if call is not None:
        builder.add_call(call)
    if answer is not None:
        read_message(builder, answer, bad, f"{where}.response", "response", call=call.id if call else None)


def read_metadata(row: dict[str, Any], builder: RoundTripBuilder) -> dict[str, Any]:
    """Returns a row's facts of the attempt, for `TrajectoryBuilder.finish`; a claimed outcome becomes a verdict."""
    words = row.get("metadata")
    words = words if isinstance(words, dict) else {}
    outcome = words.get("outcome")
    if outcome in _STATUSES:
        builder.add_verdict(outcome, number(words.get("score")), "as the row's metadata has it")
    else:
        for where, source in (("metadata.", words), ("", row)):
            _remark_on_outcomes(builder, where, source)
    model = text_or_none(words.get("model")) or text_or_none(row.get("model"))
    started: dict[str, Any] = {"task": text_or_none(words.get("task")), "model": model}
    started |= {"agent": text_or_none(words.get("agent")) or "unknown"}
    return started | {"number": count_or_none(words.get("number")) or 0}


def _remark_on_outcomes(builder: RoundTripBuilder, where: str, source: dict[str, Any]) -> None:
    """Tells of fields that seem to say how the attempt ended, of which this format knows no meaning."""
    for name, value in source.items():
        if is_outcome(name) and value is not None:
            shown = repr(value)[:50]
            builder.remark(f"{where}{name}", f"{name} is {shown}: it is kept and decides nothing; --map can read it")


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
    tools = recorded_tools(trajectory)
    row = {"messages": messages, **({"tools": tools} if tools else {}), "metadata": row_metadata(trajectory)}
    back = _conversation(row, messages, "", _WRITTEN, THROWAWAY)
    report_losses(trajectory, back, writing, ChatFormat.name, added=ADDED)
    return row
