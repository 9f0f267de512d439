"""AutoGen AgentChat: a task's result (`{messages, stop_reason}`), an array of its messages, or a team's saved state.

Each message names its agent, which stands in `Step.extra["name"]`. A team's state has no usage where the messages of
its thread have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.round_trip_builder import get_path, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.formats.shared.usage import read_usage
from assay.records import AttemptEnded

_MESSAGE = ("source", "models_usage", "type")
_SKIPPED = ("ModelClientStreamingChunkEvent",)
"""Pieces of messages that follow whole."""


class AutoGenFormat(ConversationFormat):
    name: ClassVar[str] = "autogen"
    title: ClassVar[str] = "AutoGen results and team states (JSON)"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        inside = any(seen.paths >= {f"{at}[].{key}" for key in _MESSAGE} for at in ("", "messages"))
        return inside or (seen.values.get("type") == "TeamState" and "agent_states" in seen.paths)

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        messages = document if isinstance(document, list) else get_path(document, "messages")
        messages = messages if isinstance(messages, list) else _thread(document)
        if messages is None:
            raise UserError("the document has neither `messages` nor a team's `message_thread`")
        names: dict[str, None] = {}
        for position, message in enumerate(messages):
            if not isinstance(message, dict):
                bad(f"messages[{position}]", f"expected a message, found {type(message).__name__}")
                continue
            for turn in _turns(message):
                step = add_turn(builder, turn)
                if step.actor == "agent":
                    names[str(message.get("source"))] = None
        stopped = text_or_none(get_path(document, "stop_reason"))
        agent = next(iter(names)) if len(names) == 1 else "autogen-team"
        return builder.finish(where, ended=AttemptEnded(ended=stopped), agent=agent, at=_first_time(messages))


def _thread(document: Any) -> list[Any] | None:
    """Returns the messages of a team's manager."""
    states = get_path(document, "agent_states")
    threads = [get_path(s, "message_thread") for s in (states.values() if isinstance(states, dict) else ())]
    return next((thread for thread in threads if isinstance(thread, list)), None)


def _first_time(messages: list[Any]) -> float | None:
    return next((at for m in objects_in(messages) if (at := parse_time(m.get("created_at"))) is not None), None)


def _turns(message: dict[str, Any]) -> Iterator[Turn]:
    kind, content, at = message.get("type"), message.get("content"), parse_time(message.get("created_at"))
    if kind in _SKIPPED:
        return
    if kind == "ToolCallExecutionEvent":
        for result in objects_in(content):
            chat = {"role": "tool", "tool_call_id": result.get("call_id"), "content": as_text(result.get("content"))}
            yield Turn({**chat, "error": result.get("is_error") is True}, started=at)
        return
    said: dict[str, Any] = {"content": as_text(content)}
    if kind == "ToolCallRequestEvent":
        said = {"content": None, "tool_calls": objects_in(content)}
    elif kind == "ThoughtEvent":
        said = {"content": None, "reasoning_content": said["content"]}
    role = "user" if message.get("source") == "user" else "assistant"
    (chat,) = to_chat_messages([{"role": role, "name": message.get("source"), **said}])
    usage = read_usage(message.get("models_usage"), "prompt_tokens", "completion_tokens")
    other = kind if kind not in ("TextMessage", "ToolCallRequestEvent") else None
    yield Turn(chat, usage=usage, started=at, extra={"kind": other})
