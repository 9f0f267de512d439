"""Converts messages of OpenTelemetry's conventions (`role` and `parts`) to Chat Completions, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from assay.formats.shared.json_stream import loads
from assay.formats.shared.messages import chat_calls, content_text
from assay.formats.shared.round_trip import diff_json, patch_json
from assay.formats.shared.round_trip_builder import objects_in, text_or_none
from assay.records import canonical_bytes

REST = "otel"
"""Key of the span fields that a record keeps."""


def to_chat(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Converts a message to Chat Completions; to several where it answers several calls."""
    held = objects_in(message.get("parts"))
    texts = [str(p.get("content") or "") for p in held if p.get("type") == "text"]
    chat: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts) if texts else None}
    thought = [str(p.get("content") or "") for p in held if p.get("type") == "reasoning"]
    chat |= {"reasoning_content": "\n".join(thought)} if thought else {}
    calls = [_chat_call(p) for p in held if p.get("type") == "tool_call"]
    chat |= {"tool_calls": calls} if calls else {}
    answers = [p for p in held if p.get("type") == "tool_call_response"]
    if not answers:
        rest = diff_json(message, _from_chat(chat))
        return [chat | ({REST: rest} if rest is not None else {})]
    made: list[dict[str, Any]] = []
    for part in answers:
        text = text_of(part.get("response", part.get("result")))
        made.append({"role": "tool", "tool_call_id": text_or_none(part.get("id")) or "", "content": text})
    made[0][REST] = {"=": message}
    for other in made[1:]:
        other[REST] = {"with_previous": True}
    return made


def text_of(value: Any) -> str:
    """Returns a value as text: other values as JSON, None as an empty text."""
    return value if isinstance(value, str) else "" if value is None else canonical_bytes(value).decode()


def _chat_call(part: dict[str, Any]) -> dict[str, Any]:
    given = part.get("arguments")
    text = given if isinstance(given, str) else msgspec.json.encode({} if given is None else given).decode()
    named = {"name": str(part.get("name") or ""), "arguments": text}
    return {"id": text_or_none(part.get("id")) or "", "type": "function", "function": named}


def _from_chat(chat: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if chat.get("reasoning_content") is not None:
        parts.append({"type": "reasoning", "content": chat["reasoning_content"]})
    if chat.get("role") == "tool":
        parts.append(
            {"type": "tool_call_response", "id": chat.get("tool_call_id"), "response": chat.get("content") or ""}
        )
    elif chat.get("content") is not None:
        parts.append({"type": "text", "content": content_text(chat["content"])})
    for call in chat_calls(chat):
        arguments = call.parsed if call.parsed is not None else call.arguments
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
    return {"role": chat.get("role"), "parts": parts}


def from_chat_messages(chats: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Converts Chat Completions messages back to those of the conventions."""
    found = []
    for chat in chats:
        rest = chat.get(REST)
        if not (isinstance(rest, dict) and rest.get("with_previous")):
            found.append(patch_json(_from_chat(chat), rest))
    return found


def parse_objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects of a list attribute, which may be JSON text."""
    if isinstance(value, str):
        try:
            value = loads(value)
        except ValueError:
            return []
    return objects_in(value)
