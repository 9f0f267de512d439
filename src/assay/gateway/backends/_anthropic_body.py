"""Encodes a canonical request for Anthropic Messages.

Tool messages and the user message after them become one user message. Unsigned reasoning is dropped because the API
rejects it. `max_tokens` is required and defaults to 8192. Unsupported sampling options (`seed`, `logprobs`, penalties)
and tools that are not functions are dropped. A request that arrived in the same dialect keeps its own fields, server
tools and cache marks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.gateway.dialects._deltas import arguments_as_object
from assay.gateway.interface import ModelRequest

_ENCODER = msgspec.json.Encoder()
_OWN = "anthropic-messages"
_MAX_TOKENS = 8192
_SHARED = ("temperature", "top_p", "top_k")
_SET_APART = {"tools", "tool_fields", "cache_marks", "anthropic_beta"}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
Block = dict[str, Any]


def anthropic_body(request: ModelRequest, model: str) -> dict[str, Any]:
    """Returns the whole request body, without streaming."""
    own = request.dialect == _OWN
    passed = request.passthrough if own else {}
    body: dict[str, Any] = {key: value for key, value in passed.items() if key not in _SET_APART}
    body |= {"model": model, "max_tokens": _max_tokens(request.sampling)}
    turns = _TurnBuilder(own=own, marks=passed.get("cache_marks") or [])
    for position, message in enumerate(request.messages):
        turns.add(position, message)
    if turns.system:
        body["system"] = turns.system
    body["messages"] = turns.found
    functions = [tool["function"] for tool in request.tools if tool.get("function")]
    tools = [_tool(function, passed.get("tool_fields") or {}) for function in functions]
    tools += passed.get("tools") or []
    if tools:
        body["tools"] = tools
    return body | _sampling(request.sampling, tools=bool(tools), own=own)


class _TurnBuilder:
    def __init__(self, *, own: bool, marks: list[dict[str, Any]]) -> None:
        self.system: list[Block] = []
        self.found: list[dict[str, Any]] = []
        self._own = own
        self._marks: dict[int, list[dict[str, Any]]] = {}
        for mark in marks:
            self._marks.setdefault(mark["message"], []).append(mark)

    def add(self, position: int, message: dict[str, Any]) -> None:
        """Adds the next message; `position` is its index for cache marks."""
        role = message["role"]
        blocks = self._blocks(role, message)
        for mark in self._marks.get(position, ()):
            if -len(blocks) <= mark["part"] < len(blocks):
                blocks[mark["part"]] = blocks[mark["part"]] | {"cache_control": mark["cache_control"]}
        if role in {"system", "developer"} and not self.found:
            self.system += blocks
            return
        if role in {"system", "developer"}:
            role = "system" if self._own else "user"
        elif role == "tool":
            role = "user"
        if role == "user" and self.found and self.found[-1]["role"] == "user":
            self.found[-1]["content"] += blocks
        elif blocks:
            self.found.append({"role": role, "content": blocks})

    def _blocks(self, role: str, message: dict[str, Any]) -> list[Block]:
        content = self._content(message.get("content"))
        if role == "tool":
            result: Block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
            return [result | {"is_error": True} if message.get("is_error") else result]
        if role != "assistant":
            return content
        calls = [
            {
                "type": "tool_use",
                "id": call.get("id") or "",
                "name": call["function"]["name"],
                "input": arguments_as_object(call["function"].get("arguments") or ""),
            }
            for call in message.get("tool_calls") or ()
        ]
        return [*(message.get("thinking_blocks") or ()), *content, *calls]

    def _content(self, content: Any) -> list[Block]:
        """Returns content blocks without empty texts, which the API rejects."""
        if not isinstance(content, list):
            return [{"type": "text", "text": content}] if content else []
        return [self._part(part) for part in content if part["type"] != "text" or part["text"]]

    def _part(self, part: dict[str, Any]) -> Block:
        if part["type"] == "text":
            return {"type": "text", "text": part["text"]}
        if part["type"] == "image_url":
            return {"type": "image", "source": _source(part["image_url"]["url"])}
        return part if self._own else {"type": "text", "text": _ENCODER.encode(part).decode()}


def _source(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": "base64", "media_type": head[5:-7], "data": data}
    return {"type": "url", "url": url}


def _tool(function: dict[str, Any], fields: dict[str, dict[str, Any]]) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": function["name"]}
    if function.get("description") is not None:
        tool["description"] = function["description"]
    tool["input_schema"] = function.get("parameters") or {"type": "object", "properties": {}}
    return tool | fields.get(function["name"], {})


def _max_tokens(sampling: dict[str, Any]) -> Any:
    return sampling.get("max_tokens") or sampling.get("max_completion_tokens") or _MAX_TOKENS


def _sampling(sampling: dict[str, Any], *, tools: bool, own: bool) -> dict[str, Any]:
    found = {key: sampling[key] for key in _SHARED if sampling.get(key) is not None}
    stop = sampling.get("stop")
    if stop:
        found["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    choice = sampling.get("tool_choice")
    named = choice.get("function") if isinstance(choice, dict) else None
    chosen: dict[str, Any] = {}
    if isinstance(named, dict):
        chosen = {"type": "tool", "name": named.get("name")}
    elif isinstance(choice, str) and choice in _CHOICES:
        chosen = {"type": _CHOICES[choice]}
    if sampling.get("parallel_tool_calls") is False:
        chosen = (chosen or {"type": "auto"}) | {"disable_parallel_tool_use": True}
    if chosen and tools:
        found["tool_choice"] = chosen
    wanted = sampling.get("response_format")
    schema = wanted.get("json_schema") if isinstance(wanted, dict) and not own else None
    if isinstance(schema, dict):  # of the same dialect it stands in the fields passed on
        found["output_config"] = {"format": {"type": "json_schema", "schema": schema.get("schema")}}
    return found
