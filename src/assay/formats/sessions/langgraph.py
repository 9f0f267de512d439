"""LangGraph and LangChain: a graph's state or a thread's (`{messages}`, `{values: {messages}}`), or messages alone, in
each of LangChain's serialisations (`model_dump`, `messages_to_dict`, `dumpd`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip_builder import count_or_none, get_path, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.formats.shared.usage import read_usage
from assay.records import Usage

_MARKS = ("additional_kwargs", "data.additional_kwargs", "kwargs.content")
_PLACES = ("messages[]", "values.messages[]", "[].messages[]", "[].values.messages[]", "[]")


class LangGraphFormat(ConversationFormat):
    name: ClassVar[str] = "langgraph"
    title: ClassVar[str] = "LangGraph states and LangChain messages (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        return any({f"{place}.type", f"{place}.{mark}"} <= paths for place in _PLACES for mark in _MARKS)

    def is_one_conversation(self, path: Path) -> bool:
        return not {"[].messages", "[].values"} & sniff(path).paths

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        state = get_path(document, "values") if isinstance(get_path(document, "values"), dict) else document
        messages = state if isinstance(state, list) else get_path(state, "messages")
        if not isinstance(messages, list):
            raise UserError("the document has no `messages`")
        model: str | None = None
        for message in messages:
            inner = _inner(message)
            for chat in to_chat_messages(message):
                turn = _turn(chat, inner)
                model = model or turn.model
                add_turn(builder, turn)
        rest = document if isinstance(document, dict) else {}
        builder.fields = {key: value for key, value in rest.items() if key not in ("messages", "values")}
        return builder.finish(where, agent="langgraph", model=model)


def _inner(message: Any) -> dict[str, Any]:
    """Returns a message's own fields, out of the envelope that two of the serialisations have."""
    for key in ("kwargs", "data"):
        if isinstance(inner := get_path(message, key), dict):
            return inner
    return message if isinstance(message, dict) else {}


def _turn(chat: dict[str, Any], inner: dict[str, Any]) -> Turn:
    if chat["role"] != "assistant":
        return Turn(chat)
    about = inner.get("response_metadata")
    words = inner.get("usage_metadata")
    usage = read_usage(words, "input_tokens", "output_tokens") or read_usage(
        get_path(about, "token_usage"), "prompt_tokens", "completion_tokens"
    )
    if usage is not None and isinstance(words, dict):
        cached = count_or_none(get_path(words, "input_token_details", "cache_read"))
        reasoning = count_or_none(get_path(words, "output_token_details", "reasoning"))
        usage = Usage(usage.prompt_tokens, usage.completion_tokens, cached, reasoning)
    return Turn(
        chat,
        model=text_or_none(get_path(about, "model_name")),
        dialect=text_or_none(get_path(about, "model_provider")) or "unknown",
        usage=usage,
        extra={"finish_reason": get_path(about, "finish_reason")},
    )
