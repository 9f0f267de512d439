"""An assistant message in pieces, and what every dialect needs to write one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from assay.gateway.interface import Delta, ModelReply

from .interface import BadRequest

__all__ = ["as_object", "deltas_of", "not_too_deep"]

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_DEEP = 100


def deltas_of(reply: ModelReply) -> list[Delta]:
    """A whole answer in pieces: reasoning, text, then each tool call in one piece."""
    message = reply.message
    found = _reasoning(message)
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    if isinstance(content, str) and content:
        found.append(Delta(text=content))
    for index, call in enumerate(message.get("tool_calls") or ()):
        function, extra = call["function"], call.get("extra_content")
        arguments = function.get("arguments") or ""
        sealed = {"extra_content": extra} if extra else None
        found.append(Delta(index=index, id=call.get("id"), name=function["name"], arguments=arguments, sealed=sealed))
    if found and reply.usage.prompt_tokens is not None:
        found[0] = msgspec.structs.replace(found[0], prompt_tokens=reply.usage.prompt_tokens)
    return found


def _reasoning(message: dict[str, Any]) -> list[Delta]:
    blocks = message.get("thinking_blocks")
    if not isinstance(blocks, list):
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        return [Delta(reasoning=reasoning)] if isinstance(reasoning, str) and reasoning else []
    found: list[Delta] = []
    for block in blocks:
        if block["type"] != "thinking":
            found.append(Delta(sealed=block))
            continue
        found.append(Delta(reasoning=block["thinking"], sealed={"signature": block.get("signature", "")}))
    return found


def as_object(arguments: str) -> dict[str, Any]:
    """Arguments for a dialect that has them as an object. What is none is wrapped as Claude Code wraps it when it sends
    such a call back: `{"__unparsedToolInput": {"raw": ..., "len": ...}}`."""
    try:
        value = _DECODER.decode(arguments) if arguments else {}
        if arguments.count("[") + arguments.count("{") > _DEEP:
            _ENCODER.encode(_wrapped(value))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        value = None
    if isinstance(value, dict):
        return value
    return {"__unparsedToolInput": {"raw": arguments, "len": len(arguments)}}


def _wrapped(value: Any) -> Any:
    """The value some levels deeper, as an answer or a record will hold it."""
    for _ in range(_DEEP):
        value = [value]
    return value


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Values that are nested deeper than Python can follow are refused."""
    try:
        yield
    except RecursionError as exc:
        message = "the body is nested too deeply"
        raise BadRequest(message) from exc
