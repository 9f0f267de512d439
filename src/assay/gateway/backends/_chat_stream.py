"""Parses a streamed Chat Completions reply into deltas and assembles the whole."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import Delta

from ._reply import error_in_reply, invalid_reply, merge_deltas


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Logprobs(msgspec.Struct, gc=False):
    content: list[Any] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    prompt_token_ids: list[int] | None = None
    error: Any = None


class _PartialCall:
    def __init__(self, position: int, key: int | str | None) -> None:
        self.position = position
        self.key = key
        self.id: str | None = None
        self.name: str | None = None
        self.arguments: list[str] = []
        self.extra: Any = None
        self.announced = False


_DECODER = msgspec.json.Decoder(_Chunk)


class ChatStream:
    """Implements `ReplyStream`; fields that are not parsed here are dropped from the whole."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._done = False
        self._text_since_call = False
        """True once other content followed the last tool call's first piece."""
        self._finish: str | None = None
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_PartialCall] = []
        self._raw: dict[str, Any] = {"object": "chat.completion"}
        self._choice: dict[str, Any] = {"index": 0}

    def feed(self, events: Sequence[bytes]) -> list[Delta]:
        found: list[Delta] = []
        texts: list[str] = []
        for data in events:
            chunk = self._decode(data)
            if chunk is None:
                continue
            self._merge_metadata(chunk)
            choice = chunk.choices[0] if chunk.choices else None
            if choice is None:
                continue
            self._merge_choice(choice)
            delta = choice.delta
            if delta is None:
                continue
            if delta.content and not (delta.reasoning_content or delta.reasoning or delta.tool_calls):
                texts.append(delta.content)  # what mostly comes
                continue
            found += self._emit_text(texts)
            texts = []
            found += self._split_delta(delta)
        found += self._emit_text(texts)
        return merge_deltas(found) if len(found) > 1 else found

    def _decode(self, data: bytes) -> _Chunk | None:
        if len(data) < 20 and data.strip() == b"[DONE]":
            self._done = True
            return None
        try:
            chunk = _DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise invalid_reply(
                f"{self._where} streamed an invalid chat completion chunk: {exc}; it starts {data[:80]!r}"
            ) from exc
        if chunk.error is not None:
            raise error_in_reply(data, self._where)
        return chunk

    def _merge_choice(self, choice: _Choice) -> None:
        if choice.finish_reason is not None:
            self._finish = choice.finish_reason
        if choice.token_ids is not None:
            self._choice.setdefault("token_ids", []).extend(choice.token_ids)
        if choice.logprobs is not None and choice.logprobs.content is not None:
            self._choice.setdefault("logprobs", {"content": []})["content"].extend(choice.logprobs.content)

    def _emit_text(self, texts: list[str]) -> list[Delta]:
        if not texts:
            return []
        text = "".join(texts)
        self._texts.append(text)
        self._text_since_call = True
        return [Delta(text=text)]

    def _merge_metadata(self, chunk: _Chunk) -> None:
        raw = self._raw
        if chunk.id is not None:
            raw["id"] = chunk.id
        if chunk.model is not None:
            raw["model"] = chunk.model
        if chunk.usage is not None:
            raw["usage"] = chunk.usage
        if chunk.prompt_token_ids is not None:
            raw["prompt_token_ids"] = chunk.prompt_token_ids

    def _split_delta(self, delta: _Delta) -> list[Delta]:
        found: list[Delta] = []
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning:
            self._reasoning.append(reasoning)
            self._text_since_call = True
            found.append(Delta(reasoning=reasoning))
        if delta.content:
            found += self._emit_text([delta.content])
        for call in delta.tool_calls or ():
            piece = self._call(call)
            if piece is not None:
                found.append(piece)
        return found

    def _call(self, call: _Call) -> Delta | None:
        """Returns a delta for a tool call, or None until its name is known."""
        partial = self._calls[-1] if self._calls else None
        key = call.index if call.index is not None else call.id
        if partial is None or (key is not None and key != partial.key):
            if key is not None and any(other.key == key for other in self._calls[-200:]):
                raise self._interleaved_error()
            partial = _PartialCall(len(self._calls), key)
            self._calls.append(partial)
            self._text_since_call = False
        function = call.function or _Function()
        partial.id = partial.id or call.id
        partial.extra = partial.extra or call.extra_content
        partial.arguments.append(function.arguments or "")
        if partial.announced:
            if function.arguments and self._text_since_call:
                raise self._interleaved_error()
            return Delta(index=partial.position, arguments=function.arguments) if function.arguments else None
        partial.name = function.name or None
        if partial.name is None:
            return None
        partial.announced = True
        partial.id = partial.id or f"call_{secrets.token_hex(8)}"
        sealed = {"extra_content": partial.extra} if partial.extra else None
        arguments = "".join(partial.arguments)
        return Delta(index=partial.position, id=partial.id, name=partial.name, arguments=arguments, sealed=sealed)

    def _interleaved_error(self) -> ProviderError:
        message = f"{self._where} streamed a tool call's pieces between others; each call must end before what follows"
        return invalid_reply(message)

    def assemble(self) -> dict[str, Any]:
        if not self._done and self._finish is None:
            raise ProviderError(f"{self._where} ended its stream before the answer was complete", status=200)
        if not all(call.announced for call in self._calls):
            raise invalid_reply(f"{self._where} streamed a tool call without a name")
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts) or None}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [_call_record(call) for call in self._calls]
        elif message["content"] is None:
            message["content"] = ""
        choice = self._choice | {"message": message, "finish_reason": self._finish}
        return self._raw | {"choices": [choice]}


def _call_record(call: _PartialCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": "".join(call.arguments)}
    written = {"id": call.id, "type": "function", "function": function}
    return written | {"extra_content": call.extra} if call.extra else written
