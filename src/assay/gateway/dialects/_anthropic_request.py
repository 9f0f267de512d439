"""Parses an Anthropic Messages request into the canonical call; see `anthropic_messages` for the mapping."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from assay.gateway.interface import ModelRequest

from ._deltas import encode
from ._validation import convert_part, require, require_foreign_part
from .interface import ParsedRequest, RequestTarget

OWN_SIGNATURE = "YXNzYXk6"
"""Prefix of the gateway's own signatures (base64 of `assay:`)."""
_SAMPLING = ("max_tokens", "temperature", "top_p", "top_k")
_OWN = {"model", "messages", "system", "tools", "tool_choice", "stream", "stop_sequences", *_SAMPLING}
_TOOL_OWN = {"name", "description", "input_schema"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class _Source(msgspec.Struct, gc=False):
    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""


class _Image(msgspec.Struct, gc=False):
    source: _Source


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None
    source: Any = None
    cache_control: dict[str, Any] | None = None


class _ResultContent(msgspec.Struct, gc=False):
    content: list[_Block]


class _SourceBlock(NamedTuple):
    block: _Block
    raw: dict[str, Any]
    where: str


class _Message(msgspec.Struct, gc=False):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block]


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class _Choice(msgspec.Struct, gc=False):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Format(msgspec.Struct, gc=False):
    type: str
    schema: dict[str, Any] | None = None


class _OutputConfig(msgspec.Struct, gc=False):
    format: _Format | None = None


class _Request(msgspec.Struct, gc=False):
    messages: list[_Message]
    model: str = ""
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    output_config: _OutputConfig | None = None


def read_request(target: RequestTarget, body: dict[str, Any], dialect: str) -> ParsedRequest:
    """Parses the request. Raises `BadRequest` naming the field, and RecursionError if it is nested too deeply."""
    read = convert_part(body, _Request)
    require(read.messages, "must hold at least one message", "messages")
    reading = _RequestReader(read, body)
    request = ModelRequest(
        messages=reading.messages,
        tools=reading.tools,
        sampling=_sampling(read, body),
        dialect=dialect,
        passthrough=reading.passthrough(target),
    )
    return ParsedRequest(request, read.model, bool(read.stream))


class _RequestReader:
    """One request's messages and tools in canonical form, and the fields without one."""

    def __init__(self, read: _Request, body: dict[str, Any]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self._body = body
        self._marks: list[dict[str, Any]] = []
        self._server_tools: list[dict[str, Any]] = []
        self._tool_fields: dict[str, dict[str, Any]] = {}
        if read.system:
            self._say("system", read.system, body["system"], "system")
        for position, (message, source) in enumerate(zip(read.messages, body["messages"], strict=True)):
            self._message(message, source["content"], f"messages[{position}].content")
        for tool, source in zip(read.tools or (), body.get("tools") or (), strict=True):
            self._tool(tool, source)

    def passthrough(self, target: RequestTarget) -> dict[str, Any]:
        found = {key: value for key, value in self._body.items() if key not in _OWN}
        if self._server_tools:
            found["tools"] = self._server_tools
        if self._tool_fields:
            found["tool_fields"] = self._tool_fields
        if self._marks:
            found["cache_marks"] = self._marks
        betas = target.headers.get("anthropic-beta")
        if betas:
            found["anthropic_beta"] = betas[:2000]
        return found

    def _tool(self, tool: _Tool, source: dict[str, Any]) -> None:
        if tool.input_schema is None:
            self._server_tools.append(source)
            return
        require(tool.name, "a tool needs a name", "tools")
        function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
        if tool.description is not None:
            function["description"] = tool.description
        self.tools.append({"type": "function", "function": function})
        extra = {key: value for key, value in source.items() if key not in _TOOL_OWN}
        if extra:
            self._tool_fields[tool.name] = extra

    def _message(self, message: _Message, source: Any, where: str) -> None:
        if message.role == "assistant":
            self._assistant(message.content, source, where)
            return
        if isinstance(message.content, str) or message.role == "system":
            self._say(message.role, message.content, source, where)
            return
        rest: list[_SourceBlock] = []
        for item in _source_blocks(message.content, source, where):
            if item.block.type == "tool_result":
                self._result(item.block, item.where)
            else:
                rest.append(item)
        if rest or not message.content:
            self._say_parts("user", rest)

    def _say(self, role: str, content: str | list[_Block], source: Any, where: str) -> None:
        if isinstance(content, str):
            self.messages.append({"role": role, "content": content})
        else:
            self._say_parts(role, _source_blocks(content, source, where))

    def _say_parts(self, role: str, items: list[_SourceBlock]) -> None:
        for part, item in enumerate(items):
            self._mark(item.block, part)
        self.messages.append({"role": role, "content": _content(items)})

    def _result(self, block: _Block, where: str) -> None:
        require(block.tool_use_id, "a tool result names the call it answers", f"{where}.tool_use_id")
        self._mark(block, -1)
        content: Any = block.content or ""
        if not isinstance(content, str):
            read = convert_part({"content": content}, _ResultContent, where).content
            content = _content(_source_blocks(read, block.content, f"{where}.content"))
        message = {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}
        self.messages.append(message | {"is_error": True} if block.is_error else message)

    def _assistant(self, content: str | list[_Block], source: Any, where: str) -> None:
        if isinstance(content, str):
            self.messages.append({"role": "assistant", "content": content})
            return
        texts: list[_SourceBlock] = []
        thoughts: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        for item in _source_blocks(content, source, where):
            if item.block.type in {"thinking", "redacted_thinking"}:
                thoughts.append(_thought(item))
            elif item.block.type == "tool_use":
                calls.append(_call(item.block, item.where))
            else:
                texts.append(item)
            self._mark(item.block, -1)
        message: dict[str, Any] = {"role": "assistant", "content": _assistant_content(texts, bare=not calls)}
        reasoning = "".join(thought.get("thinking", "") for thought in thoughts)
        if reasoning:
            message["reasoning_content"] = reasoning
        if not all(thought.get("signature", "").startswith(OWN_SIGNATURE) for thought in thoughts):
            message["thinking_blocks"] = thoughts
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def _mark(self, block: _Block, part: int) -> None:
        if block.cache_control is not None:
            mark = {"message": len(self.messages), "part": part, "cache_control": block.cache_control}
            self._marks.append(mark)


def _source_blocks(blocks: list[_Block], raw: list[dict[str, Any]], where: str) -> list[_SourceBlock]:
    return [
        _SourceBlock(block, source, f"{where}[{position}]")
        for position, (block, source) in enumerate(zip(blocks, raw, strict=True))
    ]


def _thought(item: _SourceBlock) -> dict[str, Any]:
    block, raw, where = item
    if block.type == "redacted_thinking":
        return raw
    require(block.thinking is not None, "expected the thinking's text", f"{where}.thinking")
    return {"type": "thinking", "thinking": block.thinking, "signature": block.signature or ""}


def _call(block: _Block, where: str) -> dict[str, Any]:
    require(block.id, "a tool call needs an id", f"{where}.id")
    require(block.name, "a tool call needs a name", f"{where}.name")
    require(isinstance(block.input, dict), "expected an object", f"{where}.input")
    function = {"name": block.name, "arguments": encode(block.input).decode()}
    return {"id": block.id, "type": "function", "function": function}


def _assistant_content(texts: list[_SourceBlock], *, bare: bool) -> Any:
    """Returns assistant content; text blocks are joined. `bare`: the turn has no tool calls."""
    if all(item.block.type == "text" for item in texts):
        text = "".join(item.block.text or "" for item in texts)
        return text if text or bare else None
    return [_part(*item) for item in texts]


def _content(items: list[_SourceBlock]) -> str | list[dict[str, Any]]:
    parts = [_part(*item) for item in items]
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(block: _Block, raw: dict[str, Any], where: str) -> dict[str, Any]:
    if block.type == "text":
        require(block.text is not None, "a text block needs a text", f"{where}.text")
        return {"type": "text", "text": block.text}
    if block.type == "image":
        source = convert_part({"source": block.source}, _Image, where).source
        if source.type == "base64":
            return {"type": "image_url", "image_url": {"url": f"data:{source.media_type};base64,{source.data}"}}
        if source.type == "url":
            return {"type": "image_url", "image_url": {"url": source.url}}
    return require_foreign_part({key: value for key, value in raw.items() if key != "cache_control"}, where)


def _sampling(read: _Request, body: dict[str, Any]) -> dict[str, Any]:
    found = {key: body[key] for key in _SAMPLING if key in body}
    if read.stop_sequences:
        found["stop"] = read.stop_sequences
    choice = read.tool_choice
    if choice is not None:
        named = choice.type == "tool"
        require(named or choice.type in _CHOICES, "expected auto, any, tool or none", "tool_choice.type")
        require(not named or choice.name, "which tool?", "tool_choice.name")
        function = {"type": "function", "function": {"name": choice.name}}
        found["tool_choice"] = function if named else _CHOICES[choice.type]
        if choice.disable_parallel_tool_use:
            found["parallel_tool_calls"] = False
    wanted = read.output_config.format if read.output_config else None
    if wanted is not None and wanted.schema is not None:
        found["response_format"] = {"type": "json_schema", "json_schema": {"name": "output", "schema": wanted.schema}}
    return found
