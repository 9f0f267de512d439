"""Messages as the trainers' own libraries take them.

OpenAI wants the arguments of a call as text, chat templates want them as an object; neither takes the other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from assay.gateway.tokens.messages import content_text, decode_arguments, tool_call_names
from assay.learning.conversation import Conversation

__all__ = ["for_openai", "for_templates", "lost_in", "own_turns"]

Message = dict[str, Any]


def for_templates(messages: Iterable[Message]) -> list[Message]:
    """Messages as Hugging Face chat templates take them: arguments as objects, results with their tool's name."""
    told = list(messages)
    names = tool_call_names(told)
    return [_for_template(message, names) for message in told]


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


def for_openai(conversation: Conversation) -> list[Message]:
    """Messages as OpenAI's fine-tuning takes them: arguments as text, `weight` 0 for turns that are not trained."""
    found: list[Message] = []
    for message, own in zip(conversation.messages, conversation.own, strict=True):
        role = _role(message)
        made: Message = {"role": role, "content": content_text(message.get("content"))}
        if role == "tool":
            made["tool_call_id"] = str(message.get("tool_call_id") or "")
        calls = _calls(message) if role == "assistant" else []
        if calls:
            made["tool_calls"] = calls
            made["content"] = made["content"] or None
        if role == "assistant" and not own:
            made["weight"] = 0
        found.append(made)
    return found


def own_turns(conversation: Conversation) -> list[int]:
    """Places of the assistant's messages that no earlier conversation of the attempt holds."""
    return [place for place, own in enumerate(conversation.own) if own]


def lost_in(conversation: Conversation, *, reasoning: bool) -> Iterator[tuple[str, str]]:
    """What of a conversation neither form holds: field and why. `reasoning`: whether that is held."""
    for message in conversation.messages:
        if not reasoning and message.get("reasoning_content"):
            yield "reasoning", "there is no place for it"
        if isinstance(message.get("content"), list) and any(
            isinstance(part, dict) and part.get("type") not in ("text", "input_text", "output_text")
            for part in message["content"]
        ):
            yield "content", "a part that is no text is told in words"
        if any(isinstance(decode_arguments(f.get("arguments")), str) for f in _functions(message)):
            yield "arguments", "they are no JSON object, and stay as they were written"


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
