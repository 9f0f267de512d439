"""Splits assistant messages into deltas, and normalizes tool calls. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import Delta, ModelReply
from assay.gateway.nesting import MAX_DEPTH, is_too_deep

from .interface import BadRequest

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
encode = _ENCODER.encode


def encode_event(data: Any, event: str | None = None) -> bytes:
    """Encodes one event with JSON data."""
    named = b"" if event is None else b"event: " + event.encode() + b"\n"
    return named + b"data: " + _ENCODER.encode(data) + b"\n\n"


def split_reply(reply: ModelReply) -> list[Delta]:
    """Splits a reply into deltas: reasoning, text, then one delta per tool call."""
    message = reply.message
    found = _reasoning_deltas(message)
    found += _text_deltas(message.get("content"))
    for index, call in enumerate(message.get("tool_calls") or ()):
        function, extra = call["function"], call.get("extra_content")
        arguments = function.get("arguments") or ""
        sealed = {"extra_content": extra} if extra else None
        found.append(Delta(index=index, id=call.get("id"), name=function["name"], arguments=arguments, sealed=sealed))
    if found and reply.usage.prompt_tokens is not None:
        found[0] = msgspec.structs.replace(found[0], prompt_tokens=reply.usage.prompt_tokens)
    return found


def normalize_tool_calls(reply: ModelReply, call_id: str) -> ModelReply:
    """Returns the reply with complete tool calls: each has an id, a name, and arguments as text."""
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


def _text_deltas(content: Any) -> list[Delta]:
    if isinstance(content, str):
        return [Delta(text=content)] if content else []
    found: list[Delta] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            found += [Delta(text=part["text"])] if part["text"] else []
        elif isinstance(part, dict) and "type" in part:
            found.append(Delta(sealed=part))
    return found


def _reasoning_deltas(message: dict[str, Any]) -> list[Delta]:
    blocks = message.get("thinking_blocks")
    if not isinstance(blocks, list):
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        return [Delta(reasoning=reasoning)] if isinstance(reasoning, str) and reasoning else []
    found: list[Delta] = []
    for block in blocks:
        if not isinstance(block, dict) or "type" not in block:
            continue
        thinking = block.get("thinking")
        if block["type"] != "thinking":
            found.append(Delta(sealed=block))
        elif isinstance(thinking, str):
            found.append(Delta(reasoning=thinking, sealed={"signature": block.get("signature", "")}))
    return found


def arguments_as_object(arguments: str) -> dict[str, Any]:
    """Parses call arguments as an object. Invalid ones are wrapped as Claude Code does when it returns such a call:
    `{"__unparsedToolInput": {"raw": ..., "len": ...}}`."""
    try:
        value = _DECODER.decode(arguments) if arguments else {}
        if arguments.count("[") + arguments.count("{") > MAX_DEPTH and is_too_deep(value):
            value = None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        value = None
    if isinstance(value, dict):
        return value
    return {"__unparsedToolInput": {"raw": arguments, "len": len(arguments)}}


@contextmanager
def limit_depth() -> Iterator[None]:
    """Converts a RecursionError into `BadRequest`."""
    try:
        yield
    except RecursionError as exc:
        raise BadRequest("the body is nested too deeply") from exc
