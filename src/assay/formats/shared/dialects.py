"""Converts messages of other APIs and frameworks to Chat Completions messages, by their shape.

Known shapes: Chat Completions, items of OpenAI Responses, Anthropic's content blocks, contents of Gemini, parts of
OpenTelemetry, LangChain's three serialisations, and requests or responses that hold such messages. Traces record any of
them as a call's input and output, whichever tool wrote the trace.

Invariant: nothing is dropped in silence. A part that Chat Completions has no place for (an image, a citation) leaves a
mark `[type]` in the text; an input of an unknown shape becomes a message with its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.formats.shared.json_stream import loads
from assay.formats.shared.round_trip_builder import get_path, list_or_empty, objects_in, text_or_none
from assay.records import canonical_bytes

_ROLES = {
    "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user", "ai": "assistant", "AIMessage": "assistant",
    "AIMessageChunk": "assistant", "model": "assistant", "SystemMessage": "system", "ToolMessage": "tool",
    "FunctionMessage": "tool", "tool": "tool", "system": "system", "user": "user", "assistant": "assistant",
    "developer": "developer", "function": "tool",
}  # fmt: skip
"""Roles of Chat Completions, by the role or the type that a message states."""
_TEXTS = ("text", "input_text", "output_text", "summary_text", "refusal")
_THOUGHTS = ("thinking", "reasoning", "thought")
_CALLS = ("tool_use", "tool_call", "tool-call", "toolCall", "function_call", "custom_tool_call", "server_tool_use",
          "mcp_call", "functionCall", "function")  # fmt: skip
_RESULTS = ("tool_result", "tool_call_response", "tool-return", "function_call_output", "custom_tool_call_output",
            "functionResponse", "function_response", "web_search_tool_result")  # fmt: skip
_UNTYPED = ("functionCall", "function_call", "functionResponse", "function_response")
"""Keys by which Gemini names the kind of a part."""
_LISTS = ("messages", "contents", "input", "history")
"""Keys of a request's messages."""
_BESIDE_TEXT = {"type", "id", "text", "generation_info", "usage", "usage_metadata", "metadata"}
"""Keys that stand beside the text of an answer. A text among other keys is a field of data, which stays whole."""
_MARKS = {
    "role",
    "messages",
    "choices",
    "candidates",
    "generations",
    "contents",
    "parts",
    "lc",
    "object",
    "data",
    "type",
}
"""Keys of which JSON that holds messages has one; other JSON in a text is the text."""
_ITEM = "item"
"""Key that marks a message as one item of a turn; items of a turn are joined, and the mark taken out."""


def to_chat_messages(value: Any, role: str = "user") -> list[dict[str, Any]]:
    """Converts anything that holds messages; `role` is that of a text without one."""
    joined: list[dict[str, Any]] = []
    for message in _convert(value, role):
        is_item = message.pop(_ITEM, False)
        if is_item and joined and joined[-1].get(_ITEM) and not _begins_turn(message, joined[-1]):
            _join(joined[-1], message)
        else:
            joined.append({**message, _ITEM: is_item})
    return [{key: item for key, item in message.items() if key != _ITEM} for message in joined]


def name_calls(messages: list[dict[str, Any]]) -> None:
    """Gives calls without an id one by their position, and results without an id that of the first open call.

    Each prompt repeats the conversation before it, so that positions are the same in all of them.
    """
    waiting: dict[str, None] = {}
    position = 0
    for message in messages:
        for call in message.get("tool_calls", ()):
            position += 1
            call["id"] = call["id"] or f"call-{position}"
            waiting[call["id"]] = None
        if message["role"] == "tool":
            message["tool_call_id"] = message.get("tool_call_id") or next(iter(waiting), "")
            waiting.pop(message["tool_call_id"], None)


def to_answer(value: Any) -> dict[str, Any] | None:
    """Converts a response to the message that the model gave; None without one. Of several choices it is the first."""
    messages = [m for m in to_chat_messages(value, "assistant") if m["role"] == "assistant"]
    for message in messages[1:]:
        _join(messages[0], message)
    return messages[0] if messages else None


def parse_messages_text(value: Any) -> Any:
    """Returns the value of a text that is JSON with messages; other values, JSON that a model wrote included,
    unchanged.
    """
    found = parse_json_text(value)
    items = found if isinstance(found, list) else [found]
    return found if items and all(isinstance(item, dict) and _MARKS & set(item) for item in items) else value


def parse_json_text(value: Any) -> Any:
    """Returns the value of a text that is a JSON object or array; other values unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return loads(value)
        except ValueError:
            return value
    return value


def as_text(value: Any) -> str:
    """Returns the text of a message's content; other values as JSON, None as an empty text."""
    if value is None or isinstance(value, str):
        return value or ""
    blocks = _Blocks()
    if isinstance(value, list) and value and all(isinstance(v, str) or _is_text(v) for v in value):
        blocks.read(value)
        return blocks.text() or ""
    return value["text"] if _is_text(value) else canonical_bytes(value).decode()


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type", "text") in _TEXTS and isinstance(value.get("text"), str)


def _begins_turn(message: dict[str, Any], before: dict[str, Any]) -> bool:
    """Returns whether an item belongs to the next turn: reasoning after words or calls does."""
    spoke = before.get("content") is not None or before.get("tool_calls")
    return message["role"] != before["role"] or ("reasoning_content" in message and bool(spoke))


def _join(message: dict[str, Any], more: dict[str, Any]) -> None:
    for key in ("content", "reasoning_content"):
        texts = [text for text in (message.get(key), more.get(key)) if text]
        if texts:
            message[key] = "\n".join(texts)
    if more.get("tool_calls"):
        message["tool_calls"] = [*message.get("tool_calls", ()), *more["tool_calls"]]


def _convert(value: Any, role: str) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    if isinstance(value, str):
        yield {"role": role, "content": value}
    elif isinstance(value, list):
        for item in value:
            yield from _convert(item, role)
    elif isinstance(value, dict):
        yield from _convert_object(value, role)
    else:
        yield {"role": role, "content": as_text(value)}


def _convert_object(value: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    for inner in (value.get("kwargs") if "lc" in value else None, value.get("data")):
        if isinstance(inner, dict) and "content" in inner:  # LangChain writes a message inside an envelope
            yield from _convert_object({**inner, "type": inner.get("type", value.get("type"))}, role)
            return
    named = value.get("role") if isinstance(value.get("role"), str) else value.get("type")
    if isinstance(named, str) and named in _ROLES and ("content" in value or "parts" in value or "tool_calls" in value):
        yield from _message(value, _ROLES[named])
    elif isinstance(value.get("role"), str):
        yield from _message(value, _ROLES.get(value["role"], value["role"]))
    elif value.get("type") in (*_CALLS, *_RESULTS, *_THOUGHTS):
        yield from _response_item(value)
    else:
        yield from _envelope(value, role)


def _envelope(value: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    """Converts a request or a response, which hold messages under names of their own."""
    key = next((k for k in _LISTS if isinstance(value.get(k), list | str)), None)
    if key is not None:
        system = value.get("instructions") or value.get("system") or value.get("systemInstruction")
        yield from _convert(system or get_path(value, "config", "system_instruction"), "system")
        yield from _convert(value[key], role)
        return
    for key in ("choices", "candidates", "generations"):
        if isinstance(found := value.get(key), list):
            yield from _convert(found[:1], "assistant")
            return
    for key in ("message", "output", "parts", "content", "text"):
        found = value.get(key)
        if key == "output" and not isinstance(found, list):
            continue
        if isinstance(found, str) and set(value) - {key} - _BESIDE_TEXT:
            continue
        if key == "parts" and isinstance(found, list):
            yield from _message(value, role)
            return
        if found is not None:
            yield from _convert(found, role)
            return
    yield {"role": role, "content": canonical_bytes(value).decode()}


def _response_item(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Converts an item of OpenAI Responses that is no message."""
    blocks = _Blocks()
    blocks.read([item])
    yield from blocks.results
    if not blocks.results:
        yield {**blocks.message("assistant"), _ITEM: True}


def _message(value: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    content = value.get("content", value.get("parts"))
    if role == "tool" and get_path(content, "function", "parameters") is not None:
        return  # LangChain's tracers list the tools after the messages
    if role == "tool" and not _calls_or_results(content):
        call_id = _text_id(value.get("tool_call_id", value.get("id")))
        made = {"role": "tool", "tool_call_id": call_id, "content": as_text(content)}
        failed = value.get("status") == "error" or value.get("error") not in (None, False)
        yield made | ({"error": True} if failed else {})
        return
    blocks = _Blocks()
    blocks.read(content if isinstance(content, list) else [] if content is None else [content])
    blocks.read_calls(value)
    yield from blocks.results
    if blocks.results and blocks.is_empty():
        return
    if role == "tool" and blocks.calls:
        role = "assistant"
    thought = value.get("reasoning_content", value.get("reasoning"))
    blocks.thoughts += [thought] if isinstance(thought, str) else []
    made = blocks.message(role)
    yield (
        made
        | ({"name": value["name"]} if isinstance(value.get("name"), str) else {})
        | ({_ITEM: True} if value.get("type") == "message" and role == "assistant" else {})
    )


def _calls_or_results(content: Any) -> bool:
    return any(_kind(block) in (*_CALLS, *_RESULTS) for block in objects_in(content))


def _kind(block: dict[str, Any]) -> str:
    kind = text_or_none(block.get("type")) or text_or_none(block.get("part_kind"))
    if kind is not None:
        return kind
    return next((key for key in _UNTYPED if key in block), "thinking" if block.get("thought") is True else "text")


class _Blocks:
    """Sorts the parts of a message."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []

    def is_empty(self) -> bool:
        return not (self.texts or self.thoughts or self.calls)

    def text(self) -> str | None:
        return "\n".join(self.texts) if self.texts else None

    def message(self, role: str) -> dict[str, Any]:
        made: dict[str, Any] = {"role": role, "content": self.text()}
        made |= {"reasoning_content": "\n".join(self.thoughts)} if self.thoughts else {}
        return made | ({"tool_calls": self.calls} if self.calls else {})

    def read(self, parts: list[Any]) -> None:
        for part in parts:
            if isinstance(part, str):
                self.texts.append(part)
            elif isinstance(part, dict):
                self._read_block(part)

    def _read_block(self, block: dict[str, Any]) -> None:
        kind = _kind(block)
        inner = block.get(kind) if isinstance(block.get(kind), dict) else block
        if kind in _TEXTS:
            found = block.get("text", block.get("content", block.get("refusal")))
            self.texts.append(as_text(found))
        elif kind in _THOUGHTS:
            found = next((block[k] for k in (*_THOUGHTS, "text", "summary", "content") if _has_words(block, k)), None)
            self.thoughts += [as_text(found)] if found else []
        elif kind in _CALLS:
            self.calls.append(_call(block, inner or block))
        elif kind in _RESULTS:
            self.results.append(_result(block, inner or block))
        else:
            self.texts.append(f"[{kind}]")

    def read_calls(self, message: dict[str, Any]) -> None:
        """Reads the calls that a message lists beside its content, without those that its content has too."""
        listed = message.get("tool_calls") or get_path(message, "additional_kwargs", "tool_calls")
        known = {call["id"] for call in self.calls if call["id"]}
        old = message.get("function_call")
        for call in [*objects_in(listed), *([old] if isinstance(old, dict) and not listed else [])]:
            found = _call(call, call)
            if found["id"] not in known:
                self.calls.append(found)


def _has_words(block: dict[str, Any], key: str) -> bool:
    return isinstance(block.get(key), str | list) and bool(block[key])


def _text_id(value: Any) -> str:
    """Returns an id; of several (Microsoft's agents give the run's before the call's) the last."""
    return text_or_none(value[-1] if isinstance(value, list) and value else value) or ""


def _call(block: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    if isinstance(block.get("function"), dict):
        inner = block["function"]
    given = next((inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None), None)
    arguments = given if isinstance(given, str) else canonical_bytes({} if given is None else given).decode()
    name = next((n for k in ("name", "tool_name", "function") if isinstance(n := inner.get(k), str)), "")
    id_ = _text_id(next((block[k] for k in ("call_id", "tool_call_id", "id") if block.get(k)), inner.get("id")))
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(block: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    content = next((inner[key] for key in ("output", "content", "response", "result") if key in inner), None)
    id_ = next((block[k] for k in ("tool_use_id", "call_id", "tool_call_id", "id") if block.get(k)), inner.get("id"))
    made = {"role": "tool", "tool_call_id": _text_id(id_), "content": as_text(content)}
    failed = block.get("is_error") is True or text_or_none(block.get("outcome")) in ("failed", "retried", "denied")
    return made | ({"error": True} if failed else {})


def tool_definitions(value: Any) -> list[dict[str, Any]]:
    """Returns the tools of a request as Chat Completions has them."""
    found = []
    for tool in objects_in(value):
        inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
        for one in objects_in(list_or_empty(tool.get("function_declarations")) or [inner]):
            if isinstance(one.get("name"), str):
                schema = one.get("parameters", one.get("input_schema", {}))
                about = {"name": one["name"], "description": one.get("description"), "parameters": schema}
                function = {key: held for key, held in about.items() if held is not None}
                found.append({"type": "function", "function": function})
    return found
