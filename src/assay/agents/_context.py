"""Truncation of conversations that exceed the model's context: the oldest tool outputs are dropped first."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.errors import ProviderError
from assay.records import Evidence

MARKER = "[output dropped: the conversation was too long; call the tool again if you need it]"
_SHARE = 0.5


class TruncatedConversation(NamedTuple):
    """A truncated conversation and the dropped outputs."""

    messages: list[dict[str, Any]]
    call_ids: tuple[str, ...]
    characters: int

    def evidence(self, number: int, turn: int, error: str) -> Evidence:
        """Returns the evidence data: the outputs that the model no longer sees from this turn on."""
        data = {
            "turn": turn,
            "calls": list(self.call_ids),
            "characters": self.characters,
            "marker": MARKER,
            "error": error[:500],
        }
        return Evidence(id=f"context-{number}", channel="gateway", kind="context_dropped", data=data)


def is_context_overflow(error: ProviderError) -> bool:
    """Returns whether the server's error says that the prompt is too long."""
    return error.status == 400 and "context_length_exceeded" in str(error)


def drop_oldest(messages: list[dict[str, Any]], keep: int) -> TruncatedConversation | None:
    """Returns the conversation with its oldest tool outputs, but never the latest `keep`, replaced by a marker until
    half of their characters are gone; None if no output would get shorter."""
    outputs = [i for i, message in enumerate(messages) if message["role"] == "tool"]
    droppable = [i for i in outputs[: max(0, len(outputs) - keep)] if len(messages[i]["content"]) > len(MARKER)]
    wanted = sum(len(messages[i]["content"]) for i in droppable) * _SHARE
    shorter, characters = messages.copy(), 0
    dropped: list[str] = []
    for i in droppable:
        if dropped and characters >= wanted:
            break
        characters += len(messages[i]["content"]) - len(MARKER)
        dropped.append(messages[i]["tool_call_id"])
        shorter[i] = {**messages[i], "content": MARKER}
    return TruncatedConversation(shorter, tuple(dropped), characters) if dropped else None
