"""Gemini generateContent, for Gemini CLI and google-genai.

A user content with function responses becomes `tool` messages and, if other parts remain, a user message. A response
matches its call by id, else by name and order; each call returned by the gateway has an id. A response `{"output":
TEXT}`, the clients' wrapper for tool output, is that text. Thoughts are `reasoning_content`; a call's
`thoughtSignature` is kept as in Google's Chat Completions (`extra_content.google.thought_signature`). Parts that are
neither text, image, call nor response are kept unchanged. `safetySettings`, `thinkingConfig`, hosted tools and unknown
fields are kept and not forwarded; `cachedContent` is rejected.

Without `alt=sse` a stream is a JSON array. A call is written when its arguments are complete. `countTokens` returns
404.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from assay.gateway.interface import Delta, ModelReply
from assay.http.messages import Response
from assay.records import Usage

from ._deltas import arguments_as_object, encode, limit_depth, split_reply
from ._gemini_request import read_request
from .interface import ApiProblem, ParsedRequest, RequestTarget, StreamWriter

_CALLS = {"generateContent": False, "streamGenerateContent": True}
_FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUS = {
    "bad_request": (400, "INVALID_ARGUMENT"),
    "unauthorized": (401, "UNAUTHENTICATED"),
    "not_found": (404, "NOT_FOUND"),
    "too_large": (413, "INVALID_ARGUMENT"),
    "context_length": (400, "INVALID_ARGUMENT"),
    "rate_limited": (429, "RESOURCE_EXHAUSTED"),
    "spent": (403, "PERMISSION_DENIED"),
    "upstream": (503, "UNAVAILABLE"),
}
_RPC = "type.googleapis.com/google.rpc."


class Gemini:
    """The Gemini dialect."""

    name = "gemini"

    def owns(self, target: RequestTarget) -> bool:
        return _method(target.path)[1] != "" or target.path.startswith("/v1beta/")

    def answer(self, target: RequestTarget, model: str) -> Response | None:
        """Answers the model list."""
        method = _method(target.path)[1]
        if method in _CALLS:
            return None
        if method:
            return self.error(ApiProblem("not_found", f"{method[:40]} is not offered here: estimate"))
        entry = {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": list(_CALLS)}
        return Response(200, encode({"models": [entry]} if target.path.endswith("/models") else entry), {})

    def parse(self, target: RequestTarget, body: dict[str, Any]) -> ParsedRequest:
        model, method = _method(target.path)
        stream = _CALLS.get(method, False)
        context = {"sse": not stream or target.query.get("alt") == "sse"}
        with limit_depth():
            return read_request(body, self.name, model, stream=stream, context=context)

    def reply(self, parsed: ParsedRequest, reply: ModelReply, call_id: str, created: float) -> bytes:
        writer = _Writer(parsed, call_id)
        parts = [part for delta in split_reply(reply) for part in writer.parts(delta)]
        return encode(writer.last(reply, parts + writer.rest()))

    def stream(self, parsed: ParsedRequest, call_id: str, created: float) -> StreamWriter:
        return _Writer(parsed, call_id)

    def error(self, problem: ApiProblem) -> Response:
        """See `Dialect.error`. Gemini CLI reads how long to wait from the details."""
        headers: dict[str, str] = {}
        if problem.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, round(problem.retry_after_s)))
        return Response(_STATUS[problem.kind][0], encode(_error(problem)), headers)

    def lineage(self, target: RequestTarget, body: dict[str, Any]) -> dict[str, str]:
        """Returns nothing: Gemini clients send no session headers."""
        return {}


class _Writer:
    """Writes each text delta as an event, and each call once it is complete."""

    def __init__(self, parsed: ParsedRequest, call_id: str) -> None:
        self._parsed = parsed
        self._call_id = call_id
        self._first = True
        self._call: Delta | None = None
        self._arguments: list[str] = []
        self._calls = 0
        tail = {"modelVersion": parsed.model, "responseId": call_id}
        self._tail = b'],"role":"model"},"index":0}],' + encode(tail)[1:]

    def start(self) -> bytes:
        """Returns the opening bracket of an array stream."""
        return b"" if self._parsed.context["sse"] else b"["

    def delta(self, delta: Delta) -> bytes:
        parts = self.parts(delta)
        return self._event(b",".join(map(encode, parts))) if parts else b""

    def parts(self, delta: Delta) -> list[dict[str, Any]]:
        """Returns the parts that a delta completes."""
        if delta.index is None:
            if delta.text:
                return [*self.rest(), {"text": delta.text}]
            return [*self.rest(), {"text": delta.reasoning, "thought": True}] if delta.reasoning else []
        ended: list[dict[str, Any]] = []
        if self._call is None or delta.index != self._call.index:
            ended = self.rest()
            self._call = delta
        self._arguments.append(delta.arguments)
        return ended

    def rest(self) -> list[dict[str, Any]]:
        """Returns the pending call as a part, if there is one."""
        call, self._call = self._call, None
        if call is None:
            return []
        arguments = arguments_as_object("".join(self._arguments))
        self._arguments = []
        identity = call.id or f"call_{self._call_id}_{self._calls}"
        self._calls += 1
        part: dict[str, Any] = {"functionCall": {"id": identity, "name": call.name, "args": arguments}}
        signature = _signature(call.sealed)
        return [part | {"thoughtSignature": signature} if signature else part]

    def keep_alive(self) -> bytes:
        """Returns a candidate without parts: Gemini clients fail on comments."""
        return self._event(b"")

    def _event(self, parts: bytes) -> bytes:
        return self._framed(b'{"candidates":[{"content":{"parts":[' + parts + self._tail)

    def _framed(self, data: bytes) -> bytes:
        if self._parsed.context["sse"]:
            return b"data: " + data + b"\n\n"
        first, self._first = self._first, False
        return data if first else b",\r\n" + data

    def last(self, reply: ModelReply, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns the last response, with finish reason and usage."""
        reason = _FINISH.get(reply.finish_reason or "", "STOP")
        content = {"parts": parts, "role": "model"}
        return {
            "candidates": [{"content": content, "finishReason": reason, "index": 0}],
            "usageMetadata": _usage(reply.usage),
            "modelVersion": self._parsed.model,
            "responseId": self._call_id,
        }

    def end(self, reply: ModelReply) -> bytes:
        """Returns the last response and the end of an array stream."""
        ended = self._framed(encode(self.last(reply, self.rest())))
        return ended if self._parsed.context["sse"] else ended + b"]"

    def error(self, problem: ApiProblem) -> bytes:
        """Returns an error in place of a response."""
        ended = self._framed(encode(_error(problem)))
        return ended if self._parsed.context["sse"] else ended + b"]"


def _method(path: str) -> tuple[str, str]:
    """Returns model and method of `.../models/MODEL:METHOD`, or empty strings."""
    if "odels/" not in path or "/v1" not in path[:200]:
        return "", ""
    model, colon, method = unquote(path.rpartition("/")[2][:400]).rpartition(":")
    return (model, method) if colon else ("", "")


def _signature(sealed: dict[str, Any] | None) -> str | None:
    extra = (sealed or {}).get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    found = google.get("thought_signature") if isinstance(google, dict) else None
    return found if isinstance(found, str) else None


def _usage(usage: Usage) -> dict[str, int]:
    """Returns the usage without unknown counts."""
    found: dict[str, int] = {}
    thoughts = usage.reasoning_tokens or 0
    if usage.prompt_tokens is not None:
        found["promptTokenCount"] = usage.prompt_tokens
    if usage.cached_tokens is not None:
        found["cachedContentTokenCount"] = usage.cached_tokens
    if usage.completion_tokens is not None:
        found["candidatesTokenCount"] = max(0, usage.completion_tokens - thoughts)
        found["thoughtsTokenCount"] = thoughts
    if usage.prompt_tokens is not None and usage.completion_tokens is not None:
        found["totalTokenCount"] = usage.prompt_tokens + usage.completion_tokens
    return found


def _error(problem: ApiProblem) -> dict[str, Any]:
    status, name = _STATUS[problem.kind]
    message = problem.message
    details: list[dict[str, Any]] = []
    if problem.kind == "context_length":
        message = f"The input token count exceeds the maximum number of tokens allowed: {message}"
    if problem.field is not None:
        violations = [{"field": problem.field, "description": message}]
        details.append({"@type": f"{_RPC}BadRequest", "fieldViolations": violations})
    if problem.retry_after_s is not None:
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{max(1, round(problem.retry_after_s))}s"})
    if problem.kind == "spent":
        details.append({"@type": f"{_RPC}ErrorInfo", "reason": "BILLING_DISABLED", "domain": "assay"})
    return {"error": {"code": status, "message": message, "status": name, "details": details}}
