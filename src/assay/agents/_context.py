"""What is dropped from a conversation that no longer fits the model: the oldest tool outputs, first to last."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.errors import ProviderError
from assay.records import Evidence

__all__ = ["MARKER", "TruncatedConversation", "drop_oldest", "is_context_overflow"]

MARKER = "[output dropped: the conversation was too long; call the tool again if you need it]"
_SHARE = 0.5


class TruncatedConversation(NamedTuple):
    """A shorter conversation, and what it lost."""

    messages: list[dict[str, Any]]
    call_ids: tuple[str, ...]
    characters: int

    def evidence(self, number: int, turn: int, error: str) -> Evidence:
        """The record of it: which outputs the model no longer sees from this turn on."""
        data = {
            "turn": turn,
            "calls": list(self.call_ids),
            "characters": self.characters,
            "marker": MARKER,
            "error": error[:500],
        }
        return Evidence(id=f"context-{number}", channel="gateway", kind="context_dropped", data=data)


def is_context_overflow(error: ProviderError) -> bool:
    """Whether the server says that the prompt is too long."""
    return error.status == 400 and "context_length_exceeded" in str(error)


def drop_oldest(messages: list[dict[str, Any]], keep: int) -> TruncatedConversation | None:
    """Replaces the oldest tool outputs by a marker until half of their characters are gone.

    Args:
        messages: The conversation; neither it nor a message of it is changed.
        keep: How many of the latest outputs stay in any case.

    Returns:
        The new conversation, or None where no output is left that would get shorter.
    """
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
