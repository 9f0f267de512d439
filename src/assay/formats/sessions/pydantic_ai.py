"""Pydantic AI: the messages of a run (`all_messages_json()`), an array of requests and responses with parts.

A request's instructions become a system message where they change. A retry is the failed result of its call, or, where
it names no tool, words to the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.round_trip_builder import list_or_empty, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.formats.shared.usage import known_cost, read_usage
from assay.records import Usage

_ROLES = {"system-prompt": "system", "user-prompt": "user"}


class PydanticAiFormat(ConversationFormat):
    name: ClassVar[str] = "pydantic-ai"
    title: ClassVar[str] = "Pydantic AI messages (JSON)"

    def recognises(self, path: Path) -> bool:
        return sniff(path).paths >= {"[].parts[].part_kind", "[].kind"}

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        told: str | None = None
        model: str | None = None
        for position, message in enumerate(list_or_empty(document)):
            if not isinstance(message, dict) or message.get("kind") not in ("request", "response"):
                bad(f"[{position}]", "expected a message whose kind is request or response")
                continue
            if message["kind"] == "response":
                model = model or text_or_none(message.get("model_name"))
                for turn in _answer_turns(message):
                    add_turn(builder, turn)
                continue
            instructions = text_or_none(message.get("instructions"))
            if instructions and instructions != told:
                add_turn(builder, Turn({"role": "system", "content": instructions}, extra={"kind": "instructions"}))
            told = instructions or told
            for turn in _request_turns(message):
                add_turn(builder, turn)
        first = next(iter(objects_in(document)), {})
        return builder.finish(where, agent="pydantic-ai", model=model, at=parse_time(first.get("timestamp")))


def _request_turns(message: dict[str, Any]) -> Iterator[Turn]:
    for part in objects_in(message.get("parts")):
        kind, at = part.get("part_kind"), parse_time(part.get("timestamp", message.get("timestamp")))
        if kind == "retry-prompt" and part.get("tool_name"):
            chat = {"role": "tool", "tool_call_id": part.get("tool_call_id"), "content": as_text(part.get("content"))}
            yield Turn({**chat, "error": True}, started=at)
        elif kind == "tool-return":
            (chat,) = to_chat_messages([{"role": "user", "content": [part]}])
            yield Turn(chat, started=at)
        else:
            chat = {"role": _ROLES.get(str(kind), "user"), "content": as_text(part.get("content"))}
            yield Turn(chat, started=at, extra={"kind": kind if kind not in _ROLES else None})


def _answer_turns(message: dict[str, Any]) -> Iterator[Turn]:
    """Yields the model's turn, and the results of tools that its provider ran."""
    for chat in to_chat_messages([{"role": "assistant", "content": list_or_empty(message.get("parts"))}]):
        yield _answer(chat, message) if chat["role"] == "assistant" else Turn(chat)


def _answer(chat: dict[str, Any], message: dict[str, Any]) -> Turn:
    words = message.get("usage")
    keys = ("input_tokens", "output_tokens", "cache_read_tokens", "output_reasoning_tokens")
    usage = read_usage(words, *keys)
    if isinstance(words, dict) and "request_tokens" in words:  # up to version 0.7
        usage = read_usage(words, "request_tokens", "response_tokens") or Usage()
    return Turn(
        chat,
        model=text_or_none(message.get("model_name")),
        dialect=text_or_none(message.get("provider_name")) or "unknown",
        usage=usage,
        cost_usd=known_cost(words.get("cost")) if isinstance(words, dict) else None,
        started=parse_time(message.get("timestamp")),
        extra={"finish_reason": message.get("finish_reason")},
    )
