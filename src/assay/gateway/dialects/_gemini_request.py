"""Parses a Gemini generateContent request into the canonical call; see `gemini` for the mapping."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

import msgspec

from assay.gateway.interface import ModelRequest

from ._deltas import encode
from ._validation import convert_part, require
from .interface import ParsedRequest

_SAMPLING = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_OWN_SAMPLING = {*_SAMPLING, "candidateCount", "responseMimeType", "responseSchema", "responseJsonSchema"}
_OWN = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
_MODES = {"AUTO": "auto", "VALIDATED": "auto", "MODE_UNSPECIFIED": "auto", "ANY": "required", "NONE": "none"}


class _Part(msgspec.Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: dict[str, Any] | None = None
    function_response: dict[str, Any] | None = None
    inline_data: dict[str, Any] | None = None
    file_data: dict[str, Any] | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[dict[str, Any]] | None = None
    role: Literal["user", "model", "function", "system"] | None = None


class _Declaration(msgspec.Struct, rename="camel", gc=False):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None


class _Tool(msgspec.Struct, rename="camel", gc=False):
    function_declarations: list[dict[str, Any]] | None = None


class _Calling(msgspec.Struct, rename="camel", gc=False):
    mode: str | None = None
    allowed_function_names: list[str] | None = None


class _ToolConfig(msgspec.Struct, rename="camel", gc=False):
    function_calling_config: _Calling | None = None


class _Generation(msgspec.Struct, rename="camel", gc=False):
    candidate_count: int | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: Any = None


class _Request(msgspec.Struct, rename="camel", gc=False):
    contents: list[_Content] | _Content | str
    system_instruction: _Content | str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_config: _ToolConfig | None = None
    generation_config: _Generation | None = None


def read_request(
    body: dict[str, Any], dialect: str, model: str, *, stream: bool, context: dict[str, Any]
) -> ParsedRequest:
    """Parses the request. Raises `BadRequest` naming the field, and RecursionError if it is nested too deeply."""
    body = dict(_camel(body))
    for key in ("generationConfig", "toolConfig"):
        if isinstance(body.get(key), dict):
            body[key] = _camel(body[key])
    require("cachedContent" not in body, "no contents are cached here: send them", "cachedContent")
    read = convert_part(body, _Request)
    generation = read.generation_config or _Generation()
    wanted = generation.candidate_count
    require(wanted in {None, 1}, "one candidate a call is given here", "generationConfig.candidateCount")
    messages = _MessageReader()
    if read.system_instruction:
        messages.say("system", _as_content(read.system_instruction), "systemInstruction")
    contents = read.contents if isinstance(read.contents, list) else [_as_content(read.contents)]
    require(contents, "must hold at least one content", "contents")
    for position, content in enumerate(contents):
        messages.content(content, f"contents[{position}]")
    tools, hosted = _tools(read.tools or [])
    passthrough = {key: value for key, value in body.items() if key not in _OWN}
    rest = {key: value for key, value in (body.get("generationConfig") or {}).items() if key not in _OWN_SAMPLING}
    passthrough |= {"generationConfig": rest} if rest else {}
    passthrough |= {"tools": hosted} if hosted else {}
    sampling = _sampling(read, body.get("generationConfig") or {})
    request = ModelRequest(messages.messages, tools, sampling, dialect, passthrough)
    content_type = "text/event-stream" if context["sse"] else "application/json"
    return ParsedRequest(request, model, stream, context, content_type)


class _MessageReader:
    """Converts contents to messages. Calls and responses without ids get positional ids, matched by name."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._waiting: dict[str, deque[str]] = {}
        """Ids of unanswered calls, by name."""
        self._answered: set[str] = set()

    def content(self, content: _Content, where: str) -> None:
        if content.role == "model":
            self._model(content, where)
        else:
            self.say("system" if content.role == "system" else "user", content, where)

    def say(self, role: str, content: _Content, where: str) -> None:
        """Adds a message that is not the model's, after the function responses in it."""
        parts: list[dict[str, Any]] = []
        responses = 0
        for position, raw in enumerate(content.parts or ()):
            path = f"{where}.parts[{position}]"
            part = convert_part(_camel(raw), _Part, path)
            if part.function_response is None:
                parts.append(_part(part, raw))
                continue
            responses += 1
            self._response(_camel(part.function_response), f"{path}.functionResponse")
        if parts or not responses:
            self.messages.append({"role": role, "content": _simplify(parts)})

    def _response(self, response: dict[str, Any], where: str) -> None:
        name, identity, raw = response.get("name"), response.get("id"), response.get("response")
        require(isinstance(name, str), "expected the name of a function", f"{where}.name")
        require(identity is None or isinstance(identity, str), "expected text", f"{where}.id")
        identity = identity or self._first_waiting(str(name))
        require(identity, "answers no function call that came before", f"{where}.id")
        self._answered.add(str(identity))
        only = raw.get("output") if isinstance(raw, dict) and len(raw) == 1 else None
        content: Any = only if isinstance(only, str) else encode(raw if raw is not None else {}).decode()
        extra = response.get("parts")
        if isinstance(extra, list) and extra:
            more = [_part(convert_part({"part": p}, _ResponsePart, f"{where}.parts").read(), p) for p in extra]
            content = [{"type": "text", "text": content}, *more]
        self.messages.append({"role": "tool", "tool_call_id": identity, "content": content})

    def _first_waiting(self, name: str) -> str | None:
        waiting = self._waiting.get(name, deque())
        while waiting:
            identity = waiting.popleft()
            if identity not in self._answered:
                return identity
        return None

    def _model(self, content: _Content, where: str) -> None:
        thoughts: list[str] = []
        parts: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        for position, raw in enumerate(content.parts or ()):
            path = f"{where}.parts[{position}]"
            part = convert_part(_camel(raw), _Part, path)
            if part.function_call is not None:
                calls.append(self._call(part, f"call_{len(self.messages)}_{len(calls)}", path))
            elif part.thought and part.text is not None:
                thoughts.append(part.text)
            else:
                parts.append(_part(part, raw))
        texts = [part["text"] for part in parts if part["type"] == "text"]
        combined: Any = parts if len(texts) < len(parts) else "".join(texts)
        message: dict[str, Any] = {"role": "assistant", "content": combined if combined or not calls else None}
        if any(thoughts):
            message["reasoning_content"] = "".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def _call(self, part: _Part, fallback: str, where: str) -> dict[str, Any]:
        raw = _camel(part.function_call or {})
        name, identity, args = raw.get("name"), raw.get("id"), raw.get("args")
        require(isinstance(name, str) and name, "expected the name of a function", f"{where}.functionCall.name")
        require(identity is None or isinstance(identity, str), "expected text", f"{where}.functionCall.id")
        require(args is None or isinstance(args, dict), "expected an object", f"{where}.functionCall.args")
        identity = identity or fallback
        self._waiting.setdefault(str(name), deque()).append(identity)
        function = {"name": name, "arguments": encode(args or {}).decode()}
        call: dict[str, Any] = {"id": identity, "type": "function", "function": function}
        if part.thought_signature:
            call["extra_content"] = {"google": {"thought_signature": part.thought_signature}}
        return call


class _ResponsePart(msgspec.Struct, gc=False):
    part: dict[str, Any]

    def read(self) -> _Part:
        return convert_part(_camel(self.part), _Part, "functionResponse.parts")


def _camel(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns keys in camelCase; the API accepts snake_case too."""
    if "_" not in "".join(raw):
        return raw
    found: dict[str, Any] = {}
    for key, value in raw.items():
        first, *rest = key.split("_")
        found[first + "".join(word[:1].upper() + word[1:] for word in rest)] = value
    return found


def _as_content(content: _Content | str) -> _Content:
    return _Content(parts=[{"text": content}]) if isinstance(content, str) else content


def _simplify(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(part: _Part, raw: Any) -> dict[str, Any]:
    """Converts a part that is neither call nor response; unknown parts are kept unchanged."""
    if part.text is not None:
        return {"type": "text", "text": part.text}
    data = _camel(part.inline_data or part.file_data or {})
    kind, payload, uri = data.get("mimeType"), data.get("data"), data.get("fileUri")
    if isinstance(kind, str) and kind.startswith("image/"):
        if isinstance(payload, str):
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{payload}"}}
        if isinstance(uri, str):
            return {"type": "image_url", "image_url": {"url": uri}}
    return {"type": "gemini_part", "part": raw}


def _tools(tools: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    hosted: list[dict[str, Any]] = []
    for position, raw in enumerate(tools):
        tool = convert_part(_camel(raw), _Tool, f"tools[{position}]")
        if tool.function_declarations is None:
            hosted.append(raw)
        for path, inner in enumerate(tool.function_declarations or ()):
            where = f"tools[{position}].functionDeclarations[{path}]"
            declared = convert_part(_camel(inner), _Declaration, where)
            schema = declared.parameters_json_schema
            if schema is None:
                schema = _json_schema(declared.parameters or {"type": "OBJECT", "properties": {}})
            function: dict[str, Any] = {"name": declared.name, "parameters": schema}
            if declared.description is not None:
                function["description"] = declared.description
            found.append({"type": "function", "function": function})
    return found, hosted


def _json_schema(schema: Any) -> Any:
    """Lower-cases type names: Gemini's schemas use capitals, JSON Schema does not."""
    if isinstance(schema, list):
        return [_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else _json_schema(value)
        for key, value in schema.items()
    }


def _sampling(read: _Request, raw: dict[str, Any]) -> dict[str, Any]:
    found = {common: raw[own] for own, common in _SAMPLING.items() if raw.get(own) is not None}
    calling = read.tool_config.function_calling_config if read.tool_config else None
    if calling is not None and calling.mode is not None:
        field = "toolConfig.functionCallingConfig.mode"
        require(calling.mode in _MODES, f"expected one of {', '.join(_MODES)}", field)
        names = calling.allowed_function_names or []
        named = {"type": "function", "function": {"name": names[0]}} if len(names) == 1 else None
        found["tool_choice"] = named if named and calling.mode == "ANY" else _MODES[calling.mode]
    generation = read.generation_config
    if generation is None or generation.response_mime_type != "application/json":
        return found
    schema = generation.response_json_schema
    if schema is None and generation.response_schema is not None:
        schema = _json_schema(generation.response_schema)
    if isinstance(schema, dict):
        found["response_format"] = {"type": "json_schema", "json_schema": {"name": "output", "schema": schema}}
    else:
        found["response_format"] = {"type": "json_object"}
    return found
