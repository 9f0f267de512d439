"""Conversations that are too long: old tool outputs are dropped or trimmed, or a summary replaces what was done so far.

The opening (system prompt, recalled memory, task) and the latest outputs always stay. A sent message is never changed:
a shortened conversation is a new list.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from assay.errors import ProviderError
from assay.records import Evidence

Policy = Literal["drop", "trim", "summarise"]
MARKER = "[output dropped: the conversation was too long; call the tool again if you need it]"
SUMMARY_REQUEST = (
    "The conversation is too long and is about to be cut. Write a short summary of what was done and found so far, "
    "with every name and value that may still be needed. Only this summary will be left of it."
)
SUMMARY_PREFIX = "Summary of the work so far:\n"
_SHARE = 0.5
_ENDS = 120
"""Characters that `trim` leaves at each end of an output."""
_LEAST_CUT = 60
"""Shorter cuts are not worth their marker; a trimmed output is not trimmed again."""


class ShortenedConversation(NamedTuple):
    """A shortened conversation and the outputs that it no longer holds whole."""

    messages: list[dict[str, Any]]
    call_ids: tuple[str, ...]
    characters: int
    policy: Policy
    summary: str | None = None
    """Id of the model call that wrote the summary."""

    def evidence(self, number: int, turn: int, reason: str) -> Evidence:
        """Returns the evidence: the outputs that the model no longer sees whole from this turn on."""
        data: dict[str, Any] = {
            "turn": turn,
            "policy": self.policy,
            "calls": list(self.call_ids),
            "characters": self.characters,
            "reason": reason[:500],
        }
        if self.policy == "drop":
            data["marker"] = MARKER
        if self.summary is not None:
            data["summary"] = self.summary
        return Evidence(id=f"context-{number}", channel="gateway", kind="context_dropped", data=data)


def is_context_overflow(error: ProviderError) -> bool:
    """Returns whether the server's error says that the prompt is too long."""
    return error.status == 400 and "context_length_exceeded" in str(error)


def count_characters(total: int, message: dict[str, Any]) -> int:
    """Adds a message's characters to a total: its text and the arguments of its calls."""
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    return (
        total + len(content if isinstance(content, str) else "") + sum(len(c["function"]["arguments"]) for c in calls)
    )


def shorten_outputs(messages: list[dict[str, Any]], keep: int, policy: Policy = "drop") -> ShortenedConversation | None:
    """Returns the conversation with its oldest tool outputs, but never the latest `keep`, dropped or trimmed until half
    of their characters are gone; None if no output would get shorter."""
    outputs = [i for i, message in enumerate(messages) if message["role"] == "tool"]
    shorter = {i: _shorten(messages[i]["content"], policy) for i in outputs[: max(0, len(outputs) - keep)]}
    saved = {i: len(messages[i]["content"]) - len(text) for i, text in shorter.items()}
    wanted = sum(len(messages[i]["content"]) for i in shorter if saved[i] > 0) * _SHARE
    found, characters = messages.copy(), 0
    dropped: list[str] = []
    for i, text in shorter.items():
        if saved[i] <= 0:
            continue
        if dropped and characters >= wanted:
            break
        characters += saved[i]
        dropped.append(messages[i]["tool_call_id"])
        found[i] = {**messages[i], "content": text}
    return ShortenedConversation(found, tuple(dropped), characters, policy) if dropped else None


def _shorten(text: str, policy: Policy) -> str:
    if policy == "drop":
        return MARKER
    cut = len(text) - 2 * _ENDS
    return f"{text[:_ENDS]}\n[{cut} characters dropped]\n{text[-_ENDS:]}" if cut > _LEAST_CUT else text


def summarised_part(messages: list[dict[str, Any]], opening: int, keep: int) -> range | None:
    """Returns the positions that a summary replaces: from the opening to the turn of the latest `keep` outputs. None if
    there are none, or nothing but an earlier summary."""
    outputs = [i for i in range(opening, len(messages)) if messages[i]["role"] == "tool"]
    end = outputs[-keep] if 0 < keep <= len(outputs) else (len(messages) if keep == 0 else opening)
    while end > opening and end < len(messages) and messages[end]["role"] == "tool":
        end -= 1  # a call and its outputs stay together
    part = range(opening, end)
    return part if any(messages[i]["role"] == "tool" for i in part) else None


def replace_by_summary(
    messages: list[dict[str, Any]], part: range, summary: str, call_id: str
) -> ShortenedConversation:
    """Returns the conversation in which a summary stands for a part."""
    gone = [messages[i] for i in part]
    told = {"role": "user", "content": f"{SUMMARY_PREFIX}{summary}"}
    characters = sum(count_characters(0, message) for message in gone) - len(told["content"])
    ids = tuple(message["tool_call_id"] for message in gone if message["role"] == "tool")
    shorter = [*messages[: part.start], told, *messages[part.stop :]]
    return ShortenedConversation(shorter, ids, characters, "summarise", call_id)
