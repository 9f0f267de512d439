"""Anthropic Messages, for Claude Code, pi and the SDK.

Mapping to the canonical call: a user message with several tool results becomes several `tool` messages and, if other
content remains, a user message; thinking is `reasoning_content`; content of one text block is that text, so that list
and string forms compare equal; arguments of earlier calls are encoded compactly. Server tools, `thinking`,
`context_management`, `output_config` and unknown fields are kept and forwarded to Anthropic servers (`passthrough`); so
are cache marks, by position, because they move from turn to turn. The gateway's own signatures are dropped when they
come back; signatures and redacted blocks of a real server are kept in `thinking_blocks`.

The prompt's token count is in `message_start` if known by then, and always in `message_delta`. `count_tokens` returns
404, after which clients estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.gateway.interface import Delta, ModelReply
from assay.http.messages import Response
from assay.records import Usage

from ._anthropic_request import OWN_SIGNATURE, read_request
from ._deltas import arguments_as_object, encode, encode_event, limit_depth, split_reply
from .interface import ApiProblem, ParsedRequest, RequestTarget, StreamWriter

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_FIELDS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_STATUS = {
    "bad_request": (400, "invalid_request_error"),
    "unauthorized": (401, "authentication_error"),
    "not_found": (404, "not_found_error"),
    "too_large": (413, "request_too_large"),
    "context_length": (400, "invalid_request_error"),
    "rate_limited": (429, "rate_limit_error"),
    "spent": (402, "billing_error"),
    "upstream": (502, "api_error"),
}


class AnthropicMessages:
    """The Anthropic Messages dialect."""

    name = "anthropic-messages"

    def owns(self, target: RequestTarget) -> bool:
        path = target.path
        return (
            path.endswith(("/messages", "/api/hello"))
            or "/v1/messages/" in path[:200]
            or ("anthropic-version" in target.headers and "/models" in path[:200])
        )

    def answer(self, target: RequestTarget, model: str) -> Response | None:
        """Answers the model list and Claude Code's probe."""
        path = target.path
        if path.endswith("/messages"):
            return None
        if path.endswith("/api/hello"):
            return Response(200, encode({"message": "hello"}), {})
        if "/models" not in path:
            text = (
                "tokens are not counted here; estimate them" if path.endswith("/count_tokens") else f"no {path[:200]}"
            )
            return self.error(ApiProblem("not_found", text))
        entry = {"type": "model", "id": model, "display_name": model, "created_at": "1970-01-01T00:00:00Z"}
        listed = {"data": [entry], "has_more": False, "first_id": model, "last_id": model}
        return Response(200, encode(listed if path.endswith("/models") else entry), {})

    def parse(self, target: RequestTarget, body: dict[str, Any]) -> ParsedRequest:
        with limit_depth():
            return read_request(target, body, self.name)

    def reply(self, parsed: ParsedRequest, reply: ModelReply, call_id: str, created: float) -> bytes:
        content: list[dict[str, Any]] = []
        for delta in split_reply(reply):
            if delta.index is not None:
                used = {
                    "type": "tool_use",
                    "id": delta.id,
                    "name": delta.name,
                    "input": arguments_as_object(delta.arguments),
                }
                content.append(used)
            elif delta.sealed is not None and "type" in delta.sealed:
                content.append(delta.sealed)
            elif delta.text:
                content.append({"type": "text", "text": delta.text})
            else:
                signature = delta.sealed["signature"] if delta.sealed else _signature(call_id)
                content.append({"type": "thinking", "thinking": delta.reasoning, "signature": signature})
        head = _head(parsed, call_id, content, _usage(reply.usage))
        return encode(head | _stop_fields(reply))

    def stream(self, parsed: ParsedRequest, call_id: str, created: float) -> StreamWriter:
        return _Writer(parsed, call_id)

    def error(self, problem: ApiProblem) -> Response:
        """See `Dialect.error`. Clients of Anthropic's SDK obey `x-should-retry`."""
        headers: dict[str, str] = {}
        if problem.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, round(problem.retry_after_s)))
        if problem.kind == "spent":
            headers["x-should-retry"] = "false"
        return Response(_STATUS[problem.kind][0], encode(_error(problem)), headers)

    def lineage(self, target: RequestTarget, body: dict[str, Any]) -> dict[str, str]:
        """Reads Claude Code's session id, and the agent id of a sub-agent."""
        names = {"x-claude-code-session-id": "session", "x-claude-code-agent-id": "agent"}
        return {common: target.headers[own][:200] for own, common in names.items() if own in target.headers}


class _Writer:
    """Writes deltas into blocks; a block stays open while deltas of its kind arrive."""

    def __init__(self, parsed: ParsedRequest, call_id: str) -> None:
        self._parsed = parsed
        self._call_id = call_id
        self._started = False
        self._kind: tuple[str, int | None] | None = None
        self._signed = False
        self._index = -1
        self._head = b""

    def start(self) -> bytes:
        """Returns nothing: `message_start` is sent with the first delta, which may hold the prompt's token count."""
        return b""

    def _begin(self, prompt_tokens: int | None) -> bytes:
        self._started = True
        head = _head(self._parsed, self._call_id, [], {"input_tokens": prompt_tokens or 0, "output_tokens": 0})
        message = head | {"stop_reason": None, "stop_sequence": None}
        return encode_event({"type": "message_start", "message": message}, "message_start")

    def delta(self, delta: Delta) -> bytes:
        written = b"" if self._started else self._begin(delta.prompt_tokens)
        if delta.index is not None:
            written += self._turn_to(("tool_use", delta.index), delta)
            return written + self._piece(delta.arguments) if delta.arguments else written
        if delta.text:
            return written + self._turn_to(("text", None), delta) + self._piece(delta.text)
        if delta.reasoning:
            written += self._turn_to(("thinking", None), delta) + self._piece(delta.reasoning)
        sealed = delta.sealed
        if sealed is not None and "type" in sealed:
            written += self._close() + self._start_block(sealed) + self._close()
        elif sealed is not None and "signature" in sealed:
            written += self._turn_to(("thinking", None), delta) + self._sign(sealed["signature"])
        return written

    def _piece(self, text: str) -> bytes:
        return self._head + encode(text) + b"}}\n\n"

    def _turn_to(self, kind: tuple[str, int | None], delta: Delta) -> bytes:
        """Opens the delta's block unless it is open."""
        if kind == self._kind and not self._signed:
            return b""
        closed = self._close()
        self._kind = kind
        form, key = _FIELDS[kind[0]]
        block: dict[str, Any] = {"type": kind[0]}
        if kind[0] == "tool_use":
            block |= {"id": delta.id, "name": delta.name, "input": {}}
        else:
            block |= {key: "", "signature": ""} if kind[0] == "thinking" else {key: ""}
        started = self._start_block(block)
        self._head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
            % (self._index, form.encode(), key.encode())
        )
        return closed + started

    def _start_block(self, block: dict[str, Any]) -> bytes:
        self._index += 1
        self._kind = self._kind or (block["type"], None)
        event = {"type": "content_block_start", "index": self._index, "content_block": block}
        return encode_event(event, "content_block_start")

    def _sign(self, signature: str) -> bytes:
        self._signed = True
        delta = {"type": "signature_delta", "signature": signature}
        event = {"type": "content_block_delta", "index": self._index, "delta": delta}
        return encode_event(event, "content_block_delta")

    def _close(self) -> bytes:
        if self._kind is None:
            return b""
        unsigned = self._kind[0] == "thinking" and not self._signed
        signed = self._sign(_signature(self._call_id)) if unsigned else b""
        self._kind, self._signed = None, False
        return signed + encode_event({"type": "content_block_stop", "index": self._index}, "content_block_stop")

    def keep_alive(self) -> bytes:
        """Returns a `ping`."""
        return (b"" if self._started else self._begin(None)) + encode_event({"type": "ping"}, "ping")

    def end(self, reply: ModelReply) -> bytes:
        """Returns the stop reason, the usage and the end of the message."""
        written = b"" if self._started else self._begin(reply.usage.prompt_tokens)
        last = {"type": "message_delta", "delta": _stop_fields(reply), "usage": _usage(reply.usage)}
        return (
            written
            + self._close()
            + encode_event(last, "message_delta")
            + encode_event({"type": "message_stop"}, "message_stop")
        )

    def error(self, problem: ApiProblem) -> bytes:
        """An `error` event."""
        return encode_event(_error(problem), "error")


def _signature(call_id: str) -> str:
    return OWN_SIGNATURE + call_id


def _head(
    parsed: ParsedRequest, call_id: str, content: list[dict[str, Any]], usage: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "id": f"msg_{call_id}",
        "type": "message",
        "role": "assistant",
        "model": parsed.model,
        "content": content,
        "usage": usage,
    }


def _stop_fields(reply: ModelReply) -> dict[str, Any]:
    if reply.raw.get("type") == "message" and isinstance(reply.raw.get("stop_reason"), str):
        return {"stop_reason": reply.raw["stop_reason"], "stop_sequence": reply.raw.get("stop_sequence")}
    called = bool(reply.message.get("tool_calls")) and reply.finish_reason in {"stop", None}
    reason = "tool_use" if called else _STOPS.get(reply.finish_reason or "stop", "end_turn")
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(usage: Usage) -> dict[str, int]:
    """Returns the usage; `input_tokens` excludes cached tokens. Unknown counts are 0 here, None in the record."""
    cached = usage.cached_tokens or 0
    return {
        "input_tokens": max(0, (usage.prompt_tokens or 0) - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens or 0,
    }


def _error(problem: ApiProblem) -> dict[str, Any]:
    # Claude Code compacts on these words.
    text = f"prompt is too long: {problem.message}" if problem.kind == "context_length" else problem.message
    return {"type": "error", "error": {"type": _STATUS[problem.kind][1], "message": text}}
