"""An assistant message in pieces, and what every dialect needs to write one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import Delta, ModelReply

from .interface import BadRequest

__all__ = ["answerable", "as_object", "deltas_of", "is_too_deep", "not_too_deep"]

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_MANY, _SPARE = 100, 400


def deltas_of(reply: ModelReply) -> list[Delta]:
    """A whole answer in pieces: reasoning, text, then each tool call in one piece."""
    message = reply.message
    found = _reasoning(message)
    found += _text(message.get("content"))
    for index, call in enumerate(message.get("tool_calls") or ()):
        function, extra = call["function"], call.get("extra_content")
        arguments = function.get("arguments") or ""
        sealed = {"extra_content": extra} if extra else None
        found.append(Delta(index=index, id=call.get("id"), name=function["name"], arguments=arguments, sealed=sealed))
    if found and reply.usage.prompt_tokens is not None:
        found[0] = msgspec.structs.replace(found[0], prompt_tokens=reply.usage.prompt_tokens)
    return found


def answerable(reply: ModelReply, call_id: str) -> ModelReply:
    """The reply with tool calls that every dialect can write: each has an id, a name, and arguments as text.

    Raises:
        ProviderError: A call has no name, or is no call at all.
    """
    calls = reply.message.get("tool_calls") or []
    if all(_is_call(call) for call in calls):
        return reply
    written: list[dict[str, Any]] = []
    for position, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise ProviderError(
                f"the model's server gave a tool call without a name - at `$.message.tool_calls[{position}]`",
                status=200,
                retryable=False,
            )
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers give the object itself
            arguments = _ENCODER.encode({} if arguments is None else arguments).decode()
        identity = call.get("id")
        identity = identity if isinstance(identity, str) and identity else f"call_{call_id}_{position}"
        written.append(call | {"id": identity, "type": "function", "function": function | {"arguments": arguments}})
    return msgspec.structs.replace(reply, message=reply.message | {"tool_calls": written})


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(call.get("id"), str) or not call["id"]:
        return False
    return (
        isinstance(function.get("name"), str) and bool(function["name"]) and isinstance(function.get("arguments"), str)
    )


def _text(content: Any) -> list[Delta]:
    if isinstance(content, str):
        return [Delta(text=content)] if content else []
    found: list[Delta] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            found += [Delta(text=part["text"])] if part["text"] else []
        elif isinstance(part, dict) and "type" in part:
            found.append(Delta(sealed=part))
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
        if arguments.count("[") + arguments.count("{") > _MANY and is_too_deep(value):
            value = None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        value = None
    if isinstance(value, dict):
        return value
    return {"__unparsedToolInput": {"raw": arguments, "len": len(arguments)}}


def is_too_deep(value: Any) -> bool:
    """Whether a value could not be written some hundred levels deeper, as an answer or a record may hold it."""
    for _ in range(_SPARE):
        value = [value]
    try:
        _ENCODER.encode(value)
    except RecursionError:
        return True
    return False


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Values that are nested deeper than Python can follow are refused."""
    try:
        yield
    except RecursionError as exc:
        raise BadRequest("the body is nested too deeply") from exc
