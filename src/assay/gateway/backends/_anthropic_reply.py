"""Parses and validates Anthropic replies, whole or streamed, as `_reply` does for OpenAI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import Delta
from assay.records import Usage

from ._reply import Completion, decode_reply, error_in_reply, invalid_reply, merge_deltas
from ._retry import is_retryable

Count = Annotated[int, msgspec.Meta(ge=0)]
_ENCODER = msgspec.json.Encoder()
_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_ERRORS = {"overloaded_error": 529, "api_error": 500, "timeout_error": 504, "rate_limit_error": 429}


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    partial_json: str | None = None
    """Raw argument text of a streamed tool call."""


class _Message(msgspec.Struct, gc=False):
    content: list[_Block]
    stop_reason: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _EventDelta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    message: dict[str, Any] | None = None
    content_block: dict[str, Any] | None = None
    delta: _EventDelta | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Event)


def read_message(body: bytes, where: str) -> Completion:
    """Checks a reply with status 200. Raises `ProviderError` naming the field."""
    raw = decode_reply(body, where)
    if "content" not in raw and raw.get("error"):
        raise error_in_reply(body, where)
    try:
        read = msgspec.convert(raw, _Message)
    except msgspec.ValidationError as exc:
        raise invalid_reply(f"{where} gave a reply that is not a message: {exc}") from exc
    usage = read.usage or _Usage()
    stop = read.stop_reason
    return Completion(
        message=_canonical_message(read.content, raw["content"]),
        finish_reason=None if stop is None else _STOPS.get(stop, stop),
        usage=Usage(_prompt_tokens(usage), usage.output_tokens, usage.cache_read_input_tokens),
        raw=raw,
        model=read.model,
        prompt_token_ids=None,
        completion_token_ids=None,
        logprobs=None,
    )


def _prompt_tokens(usage: _Usage) -> int | None:
    """Returns the token count of the whole prompt; the API reports cached tokens separately."""
    if usage.input_tokens is None:
        return None
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def _canonical_message(blocks: list[_Block], raw: list[dict[str, Any]]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    thoughts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block, given in zip(blocks, raw, strict=True):
        if block.type == "thinking":
            thoughts.append({"type": "thinking", "thinking": block.thinking, "signature": block.signature})
        elif block.type == "redacted_thinking":
            thoughts.append(given)
        elif block.type == "tool_use":
            arguments = block.partial_json
            if arguments is None:
                arguments = _ENCODER.encode({} if block.input is None else block.input).decode()
            function = {"name": block.name, "arguments": arguments}
            calls.append({"id": block.id, "type": "function", "function": function})
        else:
            parts.append({"type": "text", "text": block.text} if block.type == "text" else given)
    content: Any = parts
    if all(part["type"] == "text" for part in parts):
        content = "".join(part["text"] for part in parts)
    message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
    reasoning = "".join(thought.get("thinking", "") for thought in thoughts)
    if reasoning:
        message["reasoning_content"] = reasoning
    if any(thought.get("signature", "sealed") for thought in thoughts):
        message["thinking_blocks"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message


class MessageStream:
    """Assembles a streamed message. Blocks come one after another: start, deltas, stop."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._message: dict[str, Any] = {}
        self._content: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._fragments: list[str] = []
        self._calls = 0
        self._prompt_tokens: int | None = None
        self._stopped = False

    def feed(self, events: Sequence[bytes]) -> list[Delta]:
        return merge_deltas(delta for data in events for delta in self._handle(data))

    def _handle(self, data: bytes) -> list[Delta]:
        try:
            event = _DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise invalid_reply(f"{self._where} streamed an invalid event: {exc}; it starts {data[:80]!r}") from exc
        if event.type == "content_block_delta" and event.delta is not None:
            return self._append(event.delta)
        if event.type == "content_block_start" and event.content_block is not None:
            return self._begin(event.content_block)
        if event.type == "content_block_stop":
            return self._end()
        if event.type == "message_start" and event.message is not None:
            self._start(event.message)
        elif event.type == "message_delta" and event.delta is not None:
            self._message |= {"stop_reason": event.delta.stop_reason, "stop_sequence": event.delta.stop_sequence}
            self._merge_usage(event.usage)
        elif event.type == "message_stop":
            self._stopped = True
        elif event.type == "error":
            raise self._stream_error(data)
        return []

    def assemble(self) -> dict[str, Any]:
        if not self._stopped or self._open is not None:
            raise ProviderError(f"{self._where} ended its stream before the answer was complete", status=200)
        return self._message | {"content": self._content}

    def _start(self, message: dict[str, Any]) -> None:
        self._message = {key: value for key, value in message.items() if key not in {"content", "usage"}}
        usage = message.get("usage")
        self._merge_usage(usage if isinstance(usage, dict) else None)
        try:
            self._prompt_tokens = _prompt_tokens(msgspec.convert(usage or {}, _Usage)) or None
        except msgspec.ValidationError:
            self._prompt_tokens = None  # said precisely when the whole is read

    def _merge_usage(self, usage: dict[str, Any] | None) -> None:
        known = {key: value for key, value in (usage or {}).items() if value is not None}
        self._message["usage"] = self._message.get("usage", {}) | known

    def _begin(self, block: dict[str, Any]) -> list[Delta]:
        if self._open is not None:
            self._raise_malformed("a block inside another one")
        if not isinstance(block.get("type"), str):
            self._raise_malformed("a block without a type")
        self._open, self._fragments = dict(block), []
        if block.get("type") != "tool_use":
            first = block.get("text") or block.get("thinking")
            return self._append(_first_delta(block["type"], first)) if isinstance(first, str) and first else []
        name, identity = block.get("name"), block.get("id")
        if not (isinstance(name, str) and name and isinstance(identity, str) and identity):
            self._raise_malformed("a tool call without a name or an id")
        self._calls += 1
        arguments = _ENCODER.encode(block["input"]).decode() if block.get("input") else ""
        self._fragments = [arguments] if arguments else []
        return self._with_prompt_tokens(Delta(index=self._calls - 1, id=identity, name=name, arguments=arguments))

    def _append(self, delta: _EventDelta) -> list[Delta]:
        block = self._open
        if block is None:
            self._raise_malformed("a piece outside of any block")
        if delta.type == "text_delta" and delta.text:
            self._fragments.append(delta.text)
            return self._with_prompt_tokens(Delta(text=delta.text))
        if delta.type == "input_json_delta" and delta.partial_json:
            self._fragments.append(delta.partial_json)
            called = block.get("type") == "tool_use"
            return (
                self._with_prompt_tokens(Delta(index=self._calls - 1, arguments=delta.partial_json)) if called else []
            )
        if delta.type == "thinking_delta" and delta.thinking:
            self._fragments.append(delta.thinking)
            return self._with_prompt_tokens(Delta(reasoning=delta.thinking))
        if delta.type == "signature_delta" and delta.signature:
            block["signature"] = delta.signature
            return self._with_prompt_tokens(Delta(sealed={"signature": delta.signature}))
        return []

    def _end(self) -> list[Delta]:
        block, self._open = self._open, None
        if block is None:
            self._raise_malformed("the end of a block that was not begun")
        kind, text = block.get("type"), "".join(self._fragments)
        self._content.append(block)
        if kind in {"text", "thinking"}:
            block[kind] = text
            return []
        if kind == "tool_use":
            block |= {"partial_json": text or "{}"}
            block.pop("input", None)
            return [] if text else [Delta(index=self._calls - 1, arguments="{}")]
        if text:
            block["input"] = _decode_or_text(text)
        return self._with_prompt_tokens(Delta(sealed=block))

    def _with_prompt_tokens(self, delta: Delta) -> list[Delta]:
        if self._prompt_tokens is not None:
            delta = msgspec.structs.replace(delta, prompt_tokens=self._prompt_tokens)
            self._prompt_tokens = None
        return [delta]

    def _raise_malformed(self, what: str) -> NoReturn:
        raise invalid_reply(f"{self._where} streamed {what}")

    def _stream_error(self, data: bytes) -> ProviderError:
        error = error_in_reply(data, self._where)
        status = next((status for kind, status in _ERRORS.items() if f'"{kind}"'.encode() in data), error.status or 200)
        return ProviderError(str(error), status=status, retryable=is_retryable(status, ""))


def _first_delta(kind: str, text: str) -> _EventDelta:
    return _EventDelta(type=f"{kind}_delta", text=text, thinking=text)


def _decode_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
