"""Parses an OpenAI Responses request into the canonical call; see `openai_responses` for the mapping."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from assay.gateway.interface import ModelRequest

from ._deltas import encode
from ._validation import convert_part, require, require_foreign_part
from .interface import ParsedRequest

OWN_SEAL = "assay:"
"""Prefix of the gateway's own `encrypted_content`."""
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
    "top_logprobs": "top_logprobs",
    "seed": "seed",
}
_OWN = {"model", "input", "instructions", "tools", "tool_choice", "stream", "text", "reasoning", "store", *_SAMPLING}
_STORED = {
    "previous_response_id": "responses are not stored here: send the whole conversation as `input`",
    "conversation": "conversations are not stored here: send the whole conversation as `input`",
    "prompt": "prompt templates are not stored here: send `instructions` and `input`",
    "background": "responses are not stored here: ask in the foreground",
}
_TEXTS = {"input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output"}
_SHELL: dict[str, Any] = {
    "name": "local_shell",
    "description": "Runs a command on the user's machine and returns what it printed.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}},
            "working_directory": {"type": "string"},
            "timeout_ms": {"type": "integer"},
        },
        "required": ["command"],
    },
}


class _Item(msgspec.Struct, gc=False):
    type: str = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[dict[str, Any]] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    output: Any = None
    input: Any = None
    summary: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None
    action: Any = None


class _Tool(msgspec.Struct, gc=False):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class _Format(msgspec.Struct, gc=False):
    type: str
    name: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class _Text(msgspec.Struct, gc=False):
    format: _Format | None = None


class _Reasoning(msgspec.Struct, gc=False):
    effort: str | None = None


class _Request(msgspec.Struct, gc=False):
    input: str | list[_Item]
    model: str = ""
    instructions: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None
    include: list[str] | None = None


def read_request(body: dict[str, Any], dialect: str) -> ParsedRequest:
    """Parses the request. Raises `BadRequest` naming the field, and RecursionError if it is nested too deeply."""
    for field, why in _STORED.items():
        require(not body.get(field), why, field)
    read = convert_part(body, _Request)
    require(read.input or read.instructions, "must hold at least one item", "input")
    messages = _MessageReader()
    if read.instructions:
        messages.messages.append({"role": "system", "content": read.instructions})
    if isinstance(read.input, str):
        messages.messages.append({"role": "user", "content": read.input})
    else:
        for position, (item, raw) in enumerate(zip(read.input, body["input"], strict=True)):
            messages.item(item, raw, f"input[{position}]")
        messages.end_turn()
    tools = _ToolReader(read.tools or [], body.get("tools") or [])
    passthrough = {key: value for key, value in body.items() if key not in _OWN}
    if tools.hosted:
        passthrough["tools"] = tools.hosted
    request = ModelRequest(messages.messages, tools.messages, _sampling(read, body), dialect, passthrough)
    sealed = "reasoning.encrypted_content" in (read.include or ())
    return ParsedRequest(request, read.model, bool(read.stream), {"names": tools.names, "sealed": sealed})


class _MessageReader:
    """Converts items to messages; the items of one model reply become one assistant message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._turn: dict[str, Any] | None = None
        self._contents: list[str | list[dict[str, Any]]] = []
        self._thoughts: list[str] = []

    def item(self, item: _Item, raw: dict[str, Any], where: str) -> None:
        kind = item.type
        if kind == "message":
            require(item.role, "a message needs a role", f"{where}.role")
            self._message(item, where)
        elif kind == "reasoning":
            self._reasoning(item, where)
        elif kind.endswith("_output"):
            require(item.call_id, "an output names the call it answers", f"{where}.call_id")
            require(item.output is not None or kind not in _OUTPUTS, "what did it give?", f"{where}.output")
            self.end_turn()
            content = _content(item.output if item.output is not None else _call_fields(raw), f"{where}.output")
            self.messages.append({"role": "tool", "tool_call_id": item.call_id, "content": content})
        elif kind.endswith("_call") and item.call_id:
            self._call(item, raw, where)
        else:
            require(kind != "item_reference", "items are not stored here: send the item itself", where)
            self._open()
            self._contents.append([require_foreign_part(raw, where)])

    def end_turn(self) -> None:
        """Ends the assistant's turn."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        texts = [content for content in self._contents if isinstance(content, str)]
        if len(texts) == len(self._contents):
            text = "".join(texts)
            turn["content"] = text if text or "tool_calls" not in turn else None
        else:
            turn["content"] = [part for content in self._contents for part in _as_parts(content)]
        if self._thoughts:
            turn["reasoning_content"] = "".join(self._thoughts)
        self._contents, self._thoughts = [], []

    def _open(self) -> dict[str, Any]:
        if self._turn is None:
            self._turn = {"role": "assistant", "content": None}
            self.messages.append(self._turn)
        return self._turn

    def _message(self, item: _Item, where: str) -> None:
        content = _content(item.content or "", f"{where}.content")
        if item.role == "assistant":
            self._open()
            self._contents.append(content)
            return
        self.end_turn()
        self.messages.append({"role": "user" if item.role == "user" else "system", "content": content})

    def _reasoning(self, item: _Item, where: str) -> None:
        turn = self._open()
        parts = item.content if isinstance(item.content, list) and item.content else item.summary or []
        for position, part in enumerate(parts):
            require(isinstance(part.get("text"), str), "expected a text", f"{where}.summary[{position}].text")
        text = "\n\n".join(part["text"] for part in parts)
        if text:
            self._thoughts.append(text)
        if item.encrypted_content and not item.encrypted_content.startswith(OWN_SEAL):
            turn.setdefault("encrypted_content", []).append(item.encrypted_content)

    def _call(self, item: _Item, raw: dict[str, Any], where: str) -> None:
        kind = item.type
        if kind in {"function_call", "custom_tool_call"}:
            require(item.name, "a call needs a name", f"{where}.name")
            name = _qualified_name(item.namespace, item.name or "")
        else:
            name = kind.removesuffix("_call")
        if kind == "function_call":
            require(isinstance(item.arguments, str), "expected text", f"{where}.arguments")
            arguments = item.arguments
        elif kind == "custom_tool_call":
            require(isinstance(item.input, str), "expected text", f"{where}.input")
            arguments = encode({"input": item.input}).decode()
        else:
            raw_values = item.action if isinstance(item.action, dict) else _call_fields(raw)
            arguments = encode({key: value for key, value in raw_values.items() if key != "type"}).decode()
        call = {"id": item.call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        self._open().setdefault("tool_calls", []).append(call)


class _ToolReader:
    """Converts tools to functions, and records the form in which the client expects their calls."""

    def __init__(self, tools: list[_Tool], raw_values: list[dict[str, Any]]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.hosted: list[dict[str, Any]] = []
        self.names: dict[str, tuple[str, str | None, str]] = {}
        """Function name to call type, namespace and name; plain functions are omitted."""
        for position, (tool, raw) in enumerate(zip(tools, raw_values, strict=True)):
            where = f"tools[{position}]"
            if tool.type == "namespace":
                self._namespace(tool, where)
            elif tool.type in {"function", "custom"}:
                self._add(tool, None, where)
            elif tool.type == "local_shell":
                self.names["local_shell"] = ("local_shell", None, "local_shell")
                self.messages.append({"type": "function", "function": _SHELL})
            else:
                self.hosted.append(raw)

    def _namespace(self, tool: _Tool, where: str) -> None:
        require(tool.name, "a namespace needs a name", f"{where}.name")
        for position, inner in enumerate(tool.tools or ()):
            path = f"{where}.tools[{position}]"
            self._add(convert_part(inner, _Tool, path), tool.name, path)

    def _add(self, tool: _Tool, namespace: str | None, where: str) -> None:
        require(tool.name, "a tool needs a name", f"{where}.name")
        own = tool.name or ""
        name = _qualified_name(namespace, own)
        function: dict[str, Any] = {"name": name, "parameters": tool.parameters or {"type": "object", "properties": {}}}
        if tool.description is not None:
            function["description"] = tool.description
        if tool.strict is not None:
            function["strict"] = tool.strict
        if tool.type == "custom":
            function |= _text_tool(tool)
        if namespace is not None or tool.type == "custom":
            self.names.setdefault(name, (tool.type, namespace, own))
        self.messages.append({"type": "function", "function": function})


def _text_tool(tool: _Tool) -> dict[str, Any]:
    grammar = tool.format or {}
    description = tool.description or ""
    if isinstance(grammar.get("definition"), str):
        description += f"\n\nThe input follows this grammar ({grammar.get('syntax')}):\n{grammar['definition']}"
    properties = {"input": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["input"], "additionalProperties": False}
    return {"description": description, "parameters": parameters}


def _qualified_name(namespace: str | None, name: str) -> str:
    if not namespace:
        return name
    return namespace + ("" if namespace.endswith("_") else "__") + name


def _call_fields(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in {"type", "id", "call_id", "status"}}


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content(content: Any, where: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return encode(content).decode()
    parts = [_part(part, f"{where}[{position}]") for position, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts) and len(parts) < 2:
        return parts[0]["text"] if parts else ""
    return parts


def _part(part: Any, where: str) -> dict[str, Any]:
    require(isinstance(part, dict) and isinstance(part.get("type"), str), "expected an object with a `type`", where)
    if part["type"] in _TEXTS:
        text = part.get("refusal") if part["type"] == "refusal" else part.get("text")
        require(isinstance(text, str), "expected text", f"{where}.text")
        return {"type": "text", "text": text}
    if part["type"] == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return require_foreign_part(part, where)


def _sampling(read: _Request, body: dict[str, Any]) -> dict[str, Any]:
    found = {common: body[own] for own, common in _SAMPLING.items() if body.get(own) is not None}
    choice = read.tool_choice
    if isinstance(choice, str):
        found["tool_choice"] = choice
    elif choice is not None:
        named = isinstance(choice.get("name"), str) and choice.get("type") in {"function", "custom"}
        require(named, "expected none, auto, required, or a function or custom tool by name", "tool_choice")
        name = _qualified_name(
            choice.get("namespace") if isinstance(choice.get("namespace"), str) else None, choice["name"]
        )
        found["tool_choice"] = {"type": "function", "function": {"name": name}}
    if read.reasoning is not None and read.reasoning.effort is not None:
        found["reasoning_effort"] = read.reasoning.effort
    wanted = read.text.format if read.text is not None else None
    if wanted is not None and wanted.type == "json_schema":
        schema = {"name": wanted.name or "output", "schema": wanted.schema or {}}
        strict = {} if wanted.strict is None else {"strict": wanted.strict}
        found["response_format"] = {"type": "json_schema", "json_schema": schema | strict}
    elif wanted is not None and wanted.type != "text":
        found["response_format"] = {"type": wanted.type}
    return found
