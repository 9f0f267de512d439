"""A canonical request as a Chat Completions server takes it.

A request of the same dialect is passed on as it came. One of another dialect is brought to what servers and their chat
templates take: one system message at the beginning, later ones as user messages, no keys and no parts that Chat
Completions does not have (such a part is given as its JSON).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.gateway.interface import ModelRequest

_ENCODER = msgspec.json.Encoder()
_FOREIGN = {"thinking_blocks", "encrypted_content", "is_error"}
_PARTS = {"text", "image_url", "input_audio", "file"}


def chat_body(request: ModelRequest, model: str) -> dict[str, Any]:
    """The whole body, not streamed."""
    own = request.dialect == "openai-chat"
    messages = request.messages if own else chat_messages(request.messages)
    passed = request.passthrough if own else {}
    body: dict[str, Any] = {**passed, **request.sampling, "model": model, "messages": messages}
    if request.tools:
        body["tools"] = request.tools
    return body


def chat_messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of another dialect as any server takes them. What need not change is the same object."""
    leading = 0
    while leading < len(messages) and messages[leading]["role"] in {"system", "developer"}:
        leading += 1
    found: list[dict[str, Any]] = []
    if leading:
        texts = [_joined_text(message["content"]) for message in messages[:leading]]
        found.append({"role": "system", "content": "\n\n".join(texts)})
    for message in messages[leading:]:
        found.append(_message(message))
    return found


def _message(message: dict[str, Any]) -> dict[str, Any]:
    if not _FOREIGN.isdisjoint(message):
        message = {key: value for key, value in message.items() if key not in _FOREIGN}
    role, content = message["role"], message.get("content")
    if role in {"system", "developer"}:
        return {"role": "user", "content": _joined_text(content)}
    if not isinstance(content, list):
        return message
    parts = [part if part["type"] in _PARTS else _as_text(part) for part in content]
    if role != "user" and all(part["type"] == "text" for part in parts):
        return message | {"content": "\n\n".join(part["text"] for part in parts)}
    return message | {"content": parts}


def _as_text(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": _ENCODER.encode(part).decode()}


def _joined_text(content: Any) -> str:
    if not isinstance(content, list):
        return content or ""
    return "\n\n".join(part["text"] if part["type"] == "text" else _as_text(part)["text"] for part in content)
