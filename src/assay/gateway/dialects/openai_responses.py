"""OpenAI Responses, for Codex, openai-agents, pi and the SDK.

The items of one reply (reasoning, text, calls) are one assistant message in the canonical call; `arguments` stay byte
for byte. Functions of a namespace are named `NAMESPACE__NAME` for the model and returned with `name` and `namespace`; a
custom tool is a function with one text `input`; `local_shell` is a function too. Tools that only OpenAI's servers run
(`web_search` and others) are kept and not forwarded. Developer messages are system messages.

Nothing is stored: `store` is tolerated, while `previous_response_id`, `conversation`, `prompt`, `background` and item
references are rejected by name. So the dialect is stateless, and each recorded request holds the whole conversation.

Reasoning is returned as a summary, the only form that clients send back. The request is not repeated in the reply. A
websocket probe (Codex) is answered with 426, after which the client uses HTTP.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.gateway.interface import Delta, ModelReply
from assay.http.messages import Response
from assay.records import Usage

from ._deltas import encode, encode_event, limit_depth, split_reply
from ._openai_errors import error_code, error_reply
from ._responses_request import OWN_SEAL, read_request
from .interface import ApiProblem, ParsedRequest, RequestTarget, StreamWriter

_LINEAGE = {
    "session-id": "session",
    "session_id": "session",
    "thread-id": "thread",
    "x-codex-parent-thread-id": "parent",
    "x-openai-subagent": "agent",
}
_PIECES: dict[str, tuple[str, dict[str, Any]]] = {
    "reasoning": ("reasoning_summary_text", {"summary_index": 0}),
    "message": ("output_text", {"content_index": 0, "logprobs": []}),
    "call": ("function_call_arguments", {}),
}
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}


class OpenAIResponses:
    """The Responses dialect."""

    name = "openai-responses"

    def owns(self, target: RequestTarget) -> bool:
        return target.path.endswith("/responses") or "/v1/responses/" in target.path[:200]

    def answer(self, target: RequestTarget, model: str) -> Response | None:
        """Rejects websockets and requests for stored responses."""
        if not target.path.endswith("/responses"):
            return self.error(ApiProblem("not_found", "responses are not stored here"))
        if target.method == "GET":
            text = "websockets are not supported: POST the request"
            return Response(426, error_reply(ApiProblem("bad_request", text)).body, {"Upgrade": "HTTP/1.1"})
        return None

    def parse(self, target: RequestTarget, body: dict[str, Any]) -> ParsedRequest:
        with limit_depth():
            return read_request(body, self.name)

    def reply(self, parsed: ParsedRequest, reply: ModelReply, call_id: str, created: float) -> bytes:
        writer = _Writer(parsed, call_id, created)
        for delta in split_reply(reply):
            writer.delta(delta)
        return encode(writer.complete_response(reply))

    def stream(self, parsed: ParsedRequest, call_id: str, created: float) -> StreamWriter:
        return _Writer(parsed, call_id, created)

    def error(self, problem: ApiProblem) -> Response:
        return error_reply(problem)

    def lineage(self, target: RequestTarget, body: dict[str, Any]) -> dict[str, str]:
        """Reads Codex's session, thread, parent thread and request kind."""
        found = {common: target.headers[own][:200] for own, common in _LINEAGE.items() if own in target.headers}
        try:
            about = msgspec.json.decode(target.headers.get("x-codex-turn-metadata", ""))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return found
        kind = about.get("request_kind") if isinstance(about, dict) else None
        return found | {"kind": kind[:200]} if isinstance(kind, str) else found


class _Writer:
    """Writes deltas into items; an item stays open while deltas of its kind arrive."""

    def __init__(self, parsed: ParsedRequest, call_id: str, created: float) -> None:
        self._parsed = parsed
        self._call_id = call_id
        self._created = int(created)
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._kind: tuple[str, int | None] | None = None
        self._item: dict[str, Any] = {}
        self._texts: list[str] = []
        self._head = b""

    def start(self) -> bytes:
        """Returns `response.created` and `response.in_progress`."""
        return self._event("response.created", response=self._response("in_progress")) + self.keep_alive()

    def delta(self, delta: Delta) -> bytes:
        if delta.index is not None:
            return self._piece(("call", delta.index), delta, delta.arguments)
        if delta.text:
            return self._piece(("message", None), delta, delta.text)
        return self._piece(("reasoning", None), delta, delta.reasoning) if delta.reasoning else b""

    def _piece(self, kind: tuple[str, int | None], delta: Delta, text: str) -> bytes:
        written = b"" if kind == self._kind else self._close() + self._open(kind, delta)
        self._texts.append(text)
        if not text or not self._head:
            return written
        written += self._head + encode(text) + b',"sequence_number":%d}\n\n' % self._number
        self._number += 1
        return written

    def _open(self, kind: tuple[str, int | None], delta: Delta) -> bytes:
        self._kind, self._texts, self._head = kind, [], b""
        self._item = self._new_item(kind[0], delta)
        if self._item["type"] in {"custom_tool_call", "local_shell_call"}:  # whole at the end: no piece is readable
            return b"" if self._item["type"] == "local_shell_call" else self._event(*self._item_added())
        written = self._event(*self._item_added())
        name, position_fields = _PIECES[kind[0]]
        if kind[0] != "call":
            written += self._part("added", "")
        event = f"response.{name}.delta"
        head = {"type": event, "item_id": self._item["id"], "output_index": len(self._output)} | position_fields
        self._head = b"event: " + event.encode() + b"\ndata: " + encode(head)[:-1] + b',"delta":'
        return written

    def _item_added(self) -> tuple[str, dict[str, Any]]:
        return "response.output_item.added", {"output_index": len(self._output), "item": self._item}

    def _new_item(self, kind: str, delta: Delta) -> dict[str, Any]:
        identity = f"{self._call_id}_{len(self._output)}"
        if kind == "reasoning":
            sealed = {"encrypted_content": OWN_SEAL + self._call_id} if self._parsed.context["sealed"] else {}
            return {"id": f"rs_{identity}", "type": "reasoning", "summary": []} | sealed
        if kind == "message":
            item = {"id": f"msg_{identity}", "type": "message", "role": "assistant"}
            return item | {"status": "in_progress", "content": []}
        form, namespace, name = self._parsed.context["names"].get(delta.name, ("function", None, delta.name))
        call = {"call_id": delta.id, "name": name, "status": "in_progress"}
        if namespace is not None:
            call["namespace"] = namespace
        if form == "custom":
            return {"id": f"ctc_{identity}", "type": "custom_tool_call", "input": ""} | call
        if form == "local_shell":
            return {"id": f"lsh_{identity}", "type": "local_shell_call"} | call
        return {"id": f"fc_{identity}", "type": "function_call", "arguments": ""} | call

    def _close(self) -> bytes:
        if self._kind is None:
            return b""
        text = "".join(self._texts)
        kind, self._kind = self._kind[0], None
        written = self._end_call(text) if kind == "call" else self._end_text(kind, text)
        item = self._item
        done = self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        return written + done

    def _end_text(self, kind: str, text: str) -> bytes:
        name, position_fields = _PIECES[kind]
        written = self._event(f"response.{name}.done", self._item_position() | position_fields | {"text": text})
        written += self._part("done", text)
        if kind == "message":
            self._item |= {"status": "completed", "content": [_text_part(text)]}
        else:
            self._item |= {"summary": [{"type": "summary_text", "text": text}]}
        return written

    def _end_call(self, arguments: str) -> bytes:
        kind = self._item["type"]
        self._item |= {"status": "completed"}
        if kind == "function_call":
            self._item |= {"arguments": arguments}
            done = self._item_position() | {"name": self._item["name"], "arguments": arguments}
            return self._event("response.function_call_arguments.done", done)
        if kind == "custom_tool_call":
            text = _custom_tool_input(arguments)
            self._item |= {"input": text}
            piece = self._event("response.custom_tool_call_input.delta", self._item_position() | {"delta": text})
            return piece + self._event("response.custom_tool_call_input.done", self._item_position() | {"input": text})
        self._item = _shell_call(self._item, arguments)
        return self._event(*self._item_added())

    def _item_position(self) -> dict[str, Any]:
        return {"item_id": self._item["id"], "output_index": len(self._output)}

    def _part(self, what: str, text: str) -> bytes:
        if self._item["type"] == "message":
            fields = self._item_position() | {"content_index": 0, "part": _text_part(text)}
            return self._event(f"response.content_part.{what}", fields)
        fields = self._item_position() | {"summary_index": 0, "part": {"type": "summary_text", "text": text}}
        return self._event(f"response.reasoning_summary_part.{what}", fields)

    def keep_alive(self) -> bytes:
        """Returns `response.in_progress`."""
        return self._event("response.in_progress", response=self._response("in_progress"))

    def complete_response(self, reply: ModelReply) -> dict[str, Any]:
        """Closes the open item and returns the whole response."""
        self._close()
        cut = _CUT.get(reply.finish_reason or "")
        whole = self._response("incomplete" if cut else "completed")
        if cut:
            whole["incomplete_details"] = {"reason": cut}
        return whole | {"output": self._output, "usage": _usage(reply.usage)}

    def end(self, reply: ModelReply) -> bytes:
        """Returns `response.completed`, or `response.incomplete` for a truncated reply."""
        written = self._close()
        whole = self.complete_response(reply)
        return written + self._event(f"response.{whole['status']}", response=whole)

    def error(self, problem: ApiProblem) -> bytes:
        """Returns `response.failed`."""
        failed = self._response("failed") | {"error": {"code": error_code(problem), "message": problem.message}}
        return self._event("response.failed", response=failed)

    def _event(self, kind: str, values: dict[str, Any] | None = None, **fields: Any) -> bytes:
        event = {"type": kind, "sequence_number": self._number, **(values or {}), **fields}
        self._number += 1
        return encode_event(event, kind)

    def _response(self, status: str) -> dict[str, Any]:
        sampling = self._parsed.request.sampling
        return {
            "id": f"resp_{self._call_id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self._parsed.model,
            "output": [],
            "parallel_tool_calls": sampling.get("parallel_tool_calls", True),
            "previous_response_id": None,
            "store": False,
            "temperature": sampling.get("temperature"),
            "tool_choice": "auto",
            "tools": [],
            "top_p": sampling.get("top_p"),
            "usage": None,
        }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _custom_tool_input(arguments: str) -> str:
    """Returns the text input of a custom tool; arguments without one are the text themselves."""
    try:
        values = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments
    text = values.get("input") if isinstance(values, dict) else None
    return text if isinstance(text, str) else arguments


def _shell_call(item: dict[str, Any], arguments: str) -> dict[str, Any]:
    """Returns a `local_shell` call, or a function call if the arguments hold no command."""
    try:
        values = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        values = None
    command = values.get("command") if isinstance(values, dict) else None
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return item | {"type": "function_call", "arguments": arguments}
    action = {"type": "exec", "command": command, "env": {}}
    action |= {key: values[key] for key in ("working_directory", "timeout_ms") if values.get(key) is not None}
    kept = {key: value for key, value in item.items() if key != "name"}
    return kept | {"action": action}


def _usage(usage: Usage) -> dict[str, Any] | None:
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": prompt + completion,
    }
