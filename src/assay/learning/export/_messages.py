"""Converts messages for the trainers' libraries.

OpenAI expects call arguments as text, chat templates as an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from assay.gateway.tokens.messages import content_text, decode_arguments, tool_call_names
from assay.learning.conversation import Transcript

Message = dict[str, Any]


def chat_template_messages(messages: Iterable[Message]) -> list[Message]:
    """Converts messages for Hugging Face chat templates: arguments as objects, tool results with the tool's name."""
    listed = list(messages)
    names = tool_call_names(listed)
    return [_for_template(message, names) for message in listed]


def _for_template(message: Message, names: dict[str, str]) -> Message:
    role = _role(message)
    found: Message = {"role": role, "content": content_text(message.get("content"))}
    if role == "tool":
        name = names.get(str(message.get("tool_call_id") or ""))
        return found | ({"name": name} if name else {})
    if role != "assistant":
        return found
    if isinstance(message.get("reasoning_content"), str) and message["reasoning_content"]:
        found["reasoning_content"] = message["reasoning_content"]
    calls = [
        {
            "type": "function",
            "function": {"name": str(f.get("name")), "arguments": decode_arguments(f.get("arguments"))},
        }
        for f in _functions(message)
    ]
    return found | ({"tool_calls": calls} if calls else {})


def openai_messages(conversation: Transcript) -> list[Message]:
    """Converts messages for OpenAI fine-tuning: arguments as text, `weight` 0 for untrained turns."""
    found: list[Message] = []
    for message, own in zip(conversation.messages, conversation.own, strict=True):
        role = _role(message)
        converted: Message = {"role": role, "content": content_text(message.get("content"))}
        if role == "tool":
            converted["tool_call_id"] = str(message.get("tool_call_id") or "")
        calls = _calls(message) if role == "assistant" else []
        if calls:
            converted["tool_calls"] = calls
            converted["content"] = converted["content"] or None
        if role == "assistant" and not own:
            converted["weight"] = 0
        found.append(converted)
    return found


def own_positions(conversation: Transcript) -> list[int]:
    """Returns the positions of assistant messages that no earlier transcript of the attempt holds."""
    return [position for position, own in enumerate(conversation.own) if own]


def message_losses(conversation: Transcript, *, reasoning: bool) -> Iterator[tuple[str, str]]:
    """Yields field and reason of what both forms lose; `reasoning` tells whether reasoning is kept."""
    for message in conversation.messages:
        if not reasoning and message.get("reasoning_content"):
            yield "reasoning", "the format has no field for it"
        if isinstance(message.get("content"), list) and any(
            isinstance(part, dict) and part.get("type") not in ("text", "input_text", "output_text")
            for part in message["content"]
        ):
            yield "content", "a part that is not text is described in words"
        if any(isinstance(decode_arguments(f.get("arguments")), str) for f in _functions(message)):
            yield "arguments", "not a JSON object; kept as text"


def _role(message: Message) -> str:
    role = str(message.get("role") or "user")
    return "system" if role == "developer" else role


def _functions(message: Message) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    found = (call.get("function") for call in calls or () if isinstance(call, dict))
    return [function for function in found if isinstance(function, dict)]


def _calls(message: Message) -> list[Message]:
    return [
        {
            "id": str(call.get("id") or ""),
            "type": "function",
            "function": {
                "name": str(call["function"].get("name") or ""),
                "arguments": str(call["function"].get("arguments") or "{}"),
            },
        }
        for call in message.get("tool_calls") or ()
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
