"""Sessions of opencode: what `opencode export` writes (`info` and messages with parts), and the events that
`opencode run --format json` prints, which lack the user's words and the model.

Output tokens count reasoning, which opencode counts apart; prompt tokens count those read from and written to the
cache. Snapshots, patches and the marks of steps are not turns; each turn's other parts are kept with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, json_objects, parse_time, warn_in
from assay.formats.shared.repeated_lines import unrepeated_lines
from assay.formats.shared.round_trip_builder import (
    count_or_none,
    exit_code,
    file_origin,
    get_path,
    objects_in,
    text_or_empty,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.formats.shared.usage import known_cost
from assay.records import AttemptEnded, Observation, Usage

_OWN = ("text", "reasoning", "tool", "step-start", "step-finish", "snapshot", "patch")


def _is_named(line: dict[str, Any]) -> bool:
    return isinstance(get_path(line, "part", "id"), str)


class OpencodeFormat(ConversationFormat):
    name: ClassVar[str] = "opencode"
    title: ClassVar[str] = "opencode session (opencode export, opencode run --format json)"

    def recognises(self, path: Path) -> bool:
        return _has_events(path) or sniff(path).paths >= {"info.id", "messages[].info", "messages[].parts"}

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        if not _has_events(path):
            yield from super().read(path, reading)
            return
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        lines = json_objects(path, bad, lambda rows: unrepeated_lines(rows, reading, path.name, _is_named))
        for session, messages in _sessions_of(lines).items():
            document = {"info": {"id": session}, "messages": list(messages.values())}
            yield self.read_conversation(document, session, TrajectoryBuilder(origin, reading), bad)

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        info = get_path(document, "info")
        info = info if isinstance(info, dict) else {}
        messages = get_path(document, "messages")
        if not isinstance(messages, list):
            bad("messages", "expected a list of messages")
        model = None
        for message in objects_in(messages):
            turn = _turn(message)
            model = model or turn.model
            add_turn(builder, turn)
        builder.fields = {"info": info}
        is_asked = any(step.actor == "user" for step in builder.steps)
        last = next((e for m in reversed(objects_in(messages)) if (e := get_path(m, "info", "error"))), None)
        return builder.finish(
            f"session {text_or_none(info.get('id')) or where}",
            ended=AttemptEnded(
                broke="provider" if last is not None else None,
                error=as_text(last) if last is not None else None,
                at=parse_time(get_path(info, "time", "updated")),
            ),
            task=None if is_asked else text_or_none(info.get("id")),
            agent="opencode",
            model=model,
            at=parse_time(get_path(info, "time", "created")),
        )


def _has_events(path: Path) -> bool:
    first = sniff(path).first
    return isinstance(first, dict) and first.keys() >= {"type", "timestamp", "sessionID"} and "message" not in first


def _sessions_of(events: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the messages of each session by their ids, made of the parts in the events."""
    sessions: dict[str, dict[str, Any]] = {}
    for event in events:
        part = event["part"] if isinstance(event.get("part"), dict) else {}
        messages = sessions.setdefault(text_or_empty(event.get("sessionID")), {})
        empty = {"info": {"role": "assistant", "time": {"created": event.get("timestamp")}}, "parts": []}
        message = messages.setdefault(text_or_empty(part.get("messageID")), empty)
        message["parts"].append(part)
        if part.get("type") == "step-finish":
            message["info"] |= {"tokens": part.get("tokens"), "cost": part.get("cost")}
            message["info"]["time"]["completed"] = event.get("timestamp")
        elif event.get("type") == "error":
            message["info"]["error"] = event.get("error")
    return sessions


def _turn(message: dict[str, Any]) -> Turn:
    info = message["info"] if isinstance(message.get("info"), dict) else {}
    parts = objects_in(message.get("parts"))
    tools = [part for part in parts if part.get("type") == "tool"]
    calls = [{"id": t.get("callID"), "name": t.get("tool"), "arguments": get_path(t, "state", "input")} for t in tools]
    said = [part for part in parts if part.get("type") in ("text", "reasoning")]
    role = "assistant" if info.get("role") == "assistant" else "user"
    (chat,) = to_chat_messages([{"role": role, "content": said, "tool_calls": calls}])
    error = info.get("error")
    return Turn(
        chat,
        model=text_or_none(info.get("modelID")),
        dialect=text_or_none(info.get("providerID")) or "unknown",
        usage=_usage(info.get("tokens")),
        cost_usd=known_cost(info.get("cost")),
        started=parse_time(get_path(info, "time", "created")),
        ended=parse_time(get_path(info, "time", "completed")),
        results=tuple(seen for tool in tools if (seen := _result(tool)) is not None),
        extra={
            "agent": info.get("agent"),
            "parts": [part for part in parts if part.get("type") not in _OWN] or None,
        },
        error=as_text(error) if error is not None else None,
    )


def _usage(tokens: Any) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    new, output, reasoning = (count_or_none(tokens.get(key)) for key in ("input", "output", "reasoning"))
    read, written = (count_or_none(get_path(tokens, "cache", key)) for key in ("read", "write"))
    prompt = None if new is None else new + (read or 0) + (written or 0)
    return Usage(prompt, None if output is None else output + (reasoning or 0), read, reasoning)


def _result(tool: dict[str, Any]) -> Observation | None:
    """Returns a tool's result; None while it has none."""
    state = tool["state"] if isinstance(tool.get("state"), dict) else {}
    failed = state.get("status") == "error"
    if state.get("status") not in ("completed", "error"):
        return None
    times = [parse_time(get_path(state, "time", key)) for key in ("start", "end")]
    return Observation(
        as_text(state.get("error") if failed else state.get("output")),
        text_or_none(tool.get("callID")),
        exit_code=exit_code(get_path(state, "metadata", "exit")),
        error=failed,
        duration_s=times[1] - times[0] if times[0] is not None and times[1] is not None else None,
    )
