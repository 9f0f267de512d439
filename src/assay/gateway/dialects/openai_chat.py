"""OpenAI Chat Completions, the shape of the canonical call.

Unknown fields are kept and forwarded to a server of the same dialect. With a token backend the reply carries tokens
under vLLM's names (`prompt_token_ids`, `choices[].token_ids`, `logprobs`) if the client asked for them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from assay.gateway.interface import Delta, ModelReply, ModelRequest
from assay.http.messages import Response
from assay.records import Usage

from ._deltas import encode, encode_event
from ._openai_errors import error_body, error_reply
from ._validation import convert_part, require
from .interface import ApiProblem, BadRequest, ParsedRequest, RequestTarget, StreamWriter

SAMPLING: Final = frozenset(
    {
        "temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "seed", "stop", "tool_choice",
        "parallel_tool_calls", "response_format", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs",
        "top_logprobs", "reasoning_effort", "return_token_ids",
    }
)  # fmt: skip
_OWN = {"model", "messages", "tools", "stream", "stream_options", "n"}


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str = ""


class _ToolCall(msgspec.Struct, gc=False):
    function: _Function
    id: str = ""


class _Image(msgspec.Struct, gc=False):
    url: str


class _Part(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    image_url: _Image | None = None


class _Message(msgspec.Struct, gc=False):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


class _ToolFunction(msgspec.Struct, gc=False):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct, gc=False):
    type: str
    function: _ToolFunction | None = None


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool = False


class _Request(msgspec.Struct, gc=False):
    messages: list[_Message]
    model: str = ""
    tools: list[_Tool] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None


class OpenAIChat:
    """The Chat Completions dialect."""

    name = "openai-chat"

    def owns(self, target: RequestTarget) -> bool:
        return target.path.endswith(("/chat/completions", "/models")) or "/models/" in target.path[-200:]

    def answer(self, target: RequestTarget, model: str) -> Response | None:
        """Answers the model list."""
        if target.path.endswith("/chat/completions"):
            return None
        entry = {"id": model, "object": "model", "created": 0, "owned_by": "assay"}
        whole = target.path.endswith("/models")
        return Response(200, encode({"object": "list", "data": [entry]} if whole else entry), {})

    def parse(self, target: RequestTarget, body: dict[str, Any]) -> ParsedRequest:
        read = convert_part(body, _Request)
        require(read.messages, "must hold at least one message", "messages")
        require(read.n in {None, 1}, "one answer a call is given here; ask again for more", "n")
        for position, message in enumerate(read.messages):
            if message.role == "tool" and not message.tool_call_id:
                raise BadRequest("a tool's message names the call it answers", f"messages[{position}].tool_call_id")
            if type(message.content) is list:
                _check_parts(message.content, f"messages[{position}].content")
        for position, tool in enumerate(read.tools or ()):
            whole = tool.type != "function" or tool.function is not None
            require(whole, "expected an object", f"tools[{position}].function")
        request = ModelRequest(
            messages=body["messages"],
            tools=body.get("tools") or [],
            sampling={key: body[key] for key in body.keys() & SAMPLING},
            dialect=self.name,
            passthrough={key: value for key, value in body.items() if key not in SAMPLING and key not in _OWN},
        )
        with_usage = bool(read.stream_options and read.stream_options.include_usage)
        context = {
            "usage": with_usage,
            "tokens": bool(body.get("return_token_ids")),
            "logprobs": bool(body.get("logprobs")),
        }
        return ParsedRequest(request, read.model, bool(read.stream), context)

    def reply(self, parsed: ParsedRequest, reply: ModelReply, call_id: str, created: float) -> bytes:
        choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason or "stop"}
        choice |= _choice_tokens(parsed, reply)
        whole: dict[str, Any] = {
            "id": f"chatcmpl-{call_id}",
            "object": "chat.completion",
            "created": int(created),
            "model": parsed.model,
            "choices": [choice],
            "usage": _usage(reply.usage),
        }
        if parsed.context["tokens"] and reply.prompt_token_ids is not None:
            whole["prompt_token_ids"] = reply.prompt_token_ids
        return encode(whole)

    def stream(self, parsed: ParsedRequest, call_id: str, created: float) -> StreamWriter:
        return _Writer(parsed, call_id, created)

    def error(self, problem: ApiProblem) -> Response:
        return error_reply(problem)

    def lineage(self, target: RequestTarget, body: dict[str, Any]) -> dict[str, str]:
        """Reads the session headers of opencode and LiteLLM."""
        names = {
            "x-session-id": "session",
            "x-parent-session-id": "parent",
            "x-litellm-session-id": "session",
        }
        return {common: target.headers[own][:200] for own, common in names.items() if own in target.headers}


class _Writer:
    """Writes each delta as a chunk with one choice."""

    def __init__(self, parsed: ParsedRequest, call_id: str, created: float) -> None:
        head = {
            "id": f"chatcmpl-{call_id}",
            "object": "chat.completion.chunk",
            "created": int(created),
            "model": parsed.model,
        }
        self._head = b"data: " + encode(head)[:-1]
        self._parsed = parsed

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        return self._head + b',"choices":[{"index":0,"delta":' + encode(delta) + b',"finish_reason":null}]}\n\n'

    def start(self) -> bytes:
        """Returns the role chunk."""
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, delta: Delta) -> bytes:
        if delta.index is None:
            return self._chunk({"reasoning_content": delta.reasoning} if delta.reasoning else {"content": delta.text})
        call: dict[str, Any] = {"index": delta.index}
        if delta.id is not None:
            call |= {"id": delta.id, "type": "function"}
        call["function"] = {"arguments": delta.arguments} if delta.name is None else _function_piece(delta)
        return self._chunk({"tool_calls": [call]})

    def keep_alive(self) -> bytes:
        """Returns a chunk with an empty delta."""
        return self._chunk({})

    def end(self, reply: ModelReply) -> bytes:
        """Returns the finish reason, the usage if requested, and `[DONE]`."""
        last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason or "stop"}
        last |= _choice_tokens(self._parsed, reply)
        written = self._head + b',"choices":[' + encode(last) + b"]}\n\n"
        if self._parsed.context["usage"]:
            written += self._head + b',"choices":[],"usage":' + encode(_usage(reply.usage)) + b"}\n\n"
        return written + b"data: [DONE]\n\n"

    def error(self, problem: ApiProblem) -> bytes:
        """Returns an error object in place of a chunk."""
        return encode_event({"error": error_body(problem)})


def _check_parts(parts: list[_Part], where: str) -> None:
    for place, part in enumerate(parts):
        need = {"text": part.text, "image_url": part.image_url}.get(part.type, part)
        require(need is not None, "a part of this type needs it", f"{where}[{place}].{part.type}")


def _function_piece(delta: Delta) -> dict[str, Any]:
    return {"name": delta.name, "arguments": delta.arguments}


def _choice_tokens(parsed: ParsedRequest, reply: ModelReply) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if parsed.context["tokens"] and reply.completion_token_ids is not None:
        found["token_ids"] = reply.completion_token_ids
    if parsed.context["logprobs"] and reply.logprobs is not None and reply.completion_token_ids is not None:
        pairs = zip(reply.completion_token_ids, reply.logprobs, strict=False)
        found["logprobs"] = {"content": [{"token": f"token_id:{i}", "logprob": p} for i, p in pairs]}
    return found


def _usage(usage: Usage) -> dict[str, Any]:
    """Returns the usage; unknown counts are 0 here, None in the record."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }
