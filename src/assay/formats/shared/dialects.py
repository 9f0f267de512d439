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

from assay.formats.shared.content_parts import Part, as_text, id_text, kind_of, parse_call, parse_parts
from assay.formats.shared.json_stream import loads
from assay.formats.shared.round_trip_builder import get_path, objects_in
from assay.records import canonical_bytes

_ROLES = {
    "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user", "ai": "assistant", "AIMessage": "assistant",
    "AIMessageChunk": "assistant", "model": "assistant", "SystemMessage": "system", "ToolMessage": "tool",
    "FunctionMessage": "tool", "tool": "tool", "system": "system", "user": "user", "assistant": "assistant",
    "developer": "developer", "function": "tool",
}  # fmt: skip
"""Roles of Chat Completions, by the role or the type that a message states."""
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
    elif isinstance(value.get("type"), str) and kind_of(value) in ("call", "result", "reasoning"):
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
    """Converts an item of OpenAI Responses other than a message."""
    message, results = _read_blocks([item], "assistant")
    if not results or message.get("tool_calls"):
        yield {**message, _ITEM: True}
    yield from results


def _message(value: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    content = value.get("content", value.get("parts"))
    if role == "tool" and get_path(content, "function", "parameters") is not None:
        return  # LangChain's tracers list the tools after the messages
    if role == "tool" and not any(kind_of(block) in ("call", "result") for block in objects_in(content)):
        call_id = id_text(value.get("tool_call_id", value.get("id")))
        made = {"role": "tool", "tool_call_id": call_id, "content": as_text(content)}
        failed = value.get("status") == "error" or value.get("error") not in (None, False)
        yield made | ({"error": True} if failed else {})
        return
    message, results = _read_blocks(content, role)
    _add_listed_calls(message, value)
    calls = message.get("tool_calls", ())
    if role == "tool" and calls:
        message["role"] = "assistant"
    thought = value.get("reasoning_content", value.get("reasoning"))
    if isinstance(thought, str):
        _join(message, {"reasoning_content": thought})
    message |= {"name": value["name"]} if isinstance(value.get("name"), str) else {}
    message |= {_ITEM: True} if value.get("type") == "message" and role == "assistant" else {}
    own = {call["id"] for call in calls}
    yield from (result for result in results if result["tool_call_id"] not in own)
    if not results or message["content"] is not None or calls or "reasoning_content" in message:
        yield message
    yield from (result for result in results if result["tool_call_id"] in own)


def _read_blocks(content: Any, role: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the message that a content is, and the tool results in it."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in parse_parts(content):
        if part.kind == "call":
            calls.append(_call_item(part))
        elif part.kind == "result":
            made = {"role": "tool", "tool_call_id": part.id, "content": part.text}
            results.append(made | ({"error": True} if part.error else {}))
        elif part.kind == "reasoning":
            thoughts += [part.text] if part.text else []
        else:
            texts.append(part.text if part.kind == "text" else f"[{part.type}]")
    message: dict[str, Any] = {"role": role, "content": "\n".join(texts) if texts else None}
    message |= {"reasoning_content": "\n".join(thoughts)} if thoughts else {}
    return message | ({"tool_calls": calls} if calls else {}), results


def _add_listed_calls(message: dict[str, Any], value: dict[str, Any]) -> None:
    """Adds the calls that a message lists beside its content, without those that its content has too."""
    listed = value.get("tool_calls") or get_path(value, "additional_kwargs", "tool_calls")
    calls = list(message.get("tool_calls", ()))
    known = {call["id"] for call in calls if call["id"]}
    old = value.get("function_call")
    for call in [*objects_in(listed), *([old] if isinstance(old, dict) and not listed else [])]:
        found = _call_item(parse_call(call))
        if found["id"] not in known:
            calls.append(found)
    if calls:
        message["tool_calls"] = calls


def _call_item(part: Part) -> dict[str, Any]:
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
