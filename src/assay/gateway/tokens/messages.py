"""Converts canonical messages to the form of chat templates, without changing their text.

- Texts in parts become one text; an image becomes a line that says that it is not shown.
- `developer` is `system`; leading system messages become one; a later one becomes a user message, for templates
  refuse it there.
- Results of parallel calls are put into the order of the calls: many templates name no ids, and some clients send them
  as they came in.
- Arguments that are JSON objects are decoded, as templates expect; others stay text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

IMAGE = "[an image was here; this model is told text only]"
_SYSTEM = {"system", "developer"}


def content_text(content: Any) -> str:
    """Returns the text of message content."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(map(_part, content))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in {"image_url", "image", "input_image"}:
        return IMAGE
    try:
        return msgspec.json.encode(part).decode()
    except (TypeError, RecursionError):
        return "[content that cannot be shown]"


def decode_arguments(arguments: Any) -> dict[str, Any] | str:
    """Returns arguments as an object if they are one, else as text."""
    if isinstance(arguments, dict):
        return arguments
    text = arguments if isinstance(arguments, str) else ""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
    return decoded if isinstance(decoded, dict) else text


def tool_call_names(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns tool-call ids to names, in order."""
    return {
        str(call.get("id")): str((call.get("function") or {}).get("name") or "")
        for message in messages
        for call in message.get("tool_calls") or ()
        if isinstance(call, dict)
    }


def template_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Converts a conversation from its beginning."""
    count = 0
    while count < len(messages) and messages[count].get("role") in _SYSTEM:
        count += 1
    texts = [content_text(message.get("content")) for message in messages[:count]]
    leading = [{"role": "system", "content": "\n\n".join(texts)}] if texts else []
    return leading + template_continuation(messages[count:], tool_call_names(messages))


def template_continuation(messages: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Converts later messages. `names` are those of the calls that results may answer, in order."""
    order = {call_id: position for position, call_id in enumerate(names)}
    found: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for message in [*messages, None]:
        if message is not None and message.get("role") == "tool":
            results.append(_result(message, names))
            continue
        results.sort(key=lambda result: order.get(result["tool_call_id"], len(order)))
        found += results
        results = []
        if message is not None:
            found.append(_turn(message))
    return found


def _result(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    call_id = str(message.get("tool_call_id") or "")
    result = {"role": "tool", "content": content_text(message.get("content")), "tool_call_id": call_id}
    if names.get(call_id):
        result["name"] = names[call_id]
    return result


def _turn(message: Mapping[str, Any]) -> dict[str, Any]:
    role = message.get("role")
    text = content_text(message.get("content"))
    if role != "assistant":
        return {"role": "user", "content": text}
    turn: dict[str, Any] = {"role": "assistant", "content": text}
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        turn["reasoning_content"] = reasoning
    calls = [_call(call) for call in message.get("tool_calls") or () if isinstance(call, dict)]
    if calls:
        turn["tool_calls"] = calls
    return turn


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    name, arguments = str(function.get("name") or ""), decode_arguments(function.get("arguments"))
    return {"type": "function", "id": str(call.get("id") or ""), "function": {"name": name, "arguments": arguments}}
