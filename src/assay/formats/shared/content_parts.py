"""Parts of a message's content, whichever API or framework wrote them.

Text, reasoning, tool calls and tool results are read from the parts of OpenAI's two APIs, Anthropic, Gemini, Bedrock,
OpenTelemetry, LangChain, Pydantic AI and the Vercel AI SDK. A kind is recognised by `type` or `part_kind`, else by the
key that wraps the part's fields.

Invariant: nothing is dropped in silence. A part of another kind is named in `media` or `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from assay.formats.shared.builder import tool_call
from assay.formats.shared.round_trip_builder import text_or_empty, text_or_none
from assay.records import Observation, ToolCall, canonical_bytes

_TEXT = frozenset({"text", "input_text", "output_text", "summary_text", "refusal"})
_REASONING = frozenset({"thinking", "reasoning", "thought", "reasoningContent"})
_CALLS = frozenset({
    "tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "tool-call", "toolCall", "function_call", "function",
    "custom_tool_call", "mcp_call", "functionCall", "toolUse", "builtin-tool-call",
})  # fmt: skip
_RESULTS = frozenset({
    "tool_result", "tool-result", "toolResult", "tool_call_response", "tool-return", "function_call_output",
    "custom_tool_call_output", "functionResponse", "function_response", "builtin-tool-return",
})  # fmt: skip
_RESULT_ENDINGS = ("_tool_result", "tool-result")
_MEDIA = frozenset({
    "image", "image_url", "input_image", "audio", "input_audio", "video", "video_url", "file", "input_file", "document",
    "cache_control", "cachePoint", "redacted_thinking", "tool_reference", "search_result", "inlineData", "inline_data",
    "fileData", "file_data",
})  # fmt: skip
_WRAPPERS = (
    "functionCall", "function_call", "functionResponse", "function_response", "toolUse", "toolResult",
    "reasoningContent", "inlineData", "inline_data", "fileData", "file_data", "image", "document", "video",
    "cachePoint",
)  # fmt: skip
"""Keys by which Gemini and Bedrock name the kind of a part."""
_CALL_IDS = ("call_id", "tool_call_id", "toolUseId", "toolCallId", "id")
_RESULT_IDS = ("tool_use_id", *_CALL_IDS)
_VALUES = frozenset({"text", "json", "content", "error-text", "error-json"})
"""Types of the values that the Vercel AI SDK wraps tool results in."""

Kind = Literal["text", "reasoning", "call", "result", "media", "unknown"]


class Part(msgspec.Struct, frozen=True):
    """One part of a message's content."""

    kind: Kind
    type: str
    """As the source calls it."""
    text: str = ""
    """Of a text, of reasoning and of a tool's result."""
    id: str = ""
    """Of a call, and of the call that a result belongs to; empty without one."""
    name: str = ""
    """Of the tool that is called."""
    arguments: str = ""
    """Of a call, as JSON, or as the text that a model wrote in its place."""
    error: bool = False
    """The tool failed."""


class ContentParts(NamedTuple):
    """The parts of one message's content."""

    text: str | None
    """Its texts, joined by line ends; None without text."""
    reasoning: str | None
    calls: tuple[ToolCall, ...]
    results: tuple[Observation, ...]
    unknown: tuple[str, ...]
    """Kinds of parts that are not read."""


def read_parts(content: Any) -> ContentParts:
    """Reads the content of a message: text, or a list of parts."""
    if content is None or isinstance(content, str):
        return ContentParts(content, None, (), (), ())
    parts = list(parse_parts(content))
    texts = [part.text for part in parts if part.kind == "text"]
    thoughts = [part.text for part in parts if part.kind == "reasoning" and part.text]
    return ContentParts(
        "\n".join(texts) if texts else None,
        "\n\n".join(thoughts) or None,
        tuple(tool_call(part.id, part.name, part.arguments) for part in parts if part.kind == "call"),
        tuple(Observation(p.text, p.id or None, error=p.error) for p in parts if p.kind == "result"),
        tuple(part.type for part in parts if part.kind == "unknown"),
    )


def parse_parts(content: Any) -> Iterator[Part]:
    """Yields the parts of a message's content, or of the items of a response, in their order."""
    for part in content if isinstance(content, list) else [] if content is None else [content]:
        if isinstance(part, str):
            yield Part("text", "text", part)
        elif isinstance(part, dict):
            yield from _parse_part(part)
        else:
            yield Part("unknown", type(part).__name__)


def kind_of(part: dict[str, Any]) -> Kind:
    """Returns the kind of a part."""
    type_ = _type_of(part)
    if type_ in _CALLS:
        return "call"
    if type_ in _RESULTS or type_.endswith(_RESULT_ENDINGS):
        return "result"
    if type_ in _REASONING:
        return "reasoning"
    if type_ in _TEXT or isinstance(part.get("text"), str):
        return "text"
    return "media" if type_ in _MEDIA else "unknown"


def as_text(value: Any) -> str:
    """Returns the text of a message's content or a tool's result; other values as JSON, None as an empty text.

    Of a list of parts the texts are joined by line ends, with other parts among them as JSON.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and value and all(isinstance(item, str) or _is_block(item) for item in value):
        return "\n".join(map(as_text, value))
    if isinstance(value, dict):
        if _is_text(value):
            return str(value["text"])
        if set(value) == {"json"}:
            value = value["json"]
        elif "value" in value and (len(value) == 1 or text_or_empty(value.get("type")) in _VALUES):
            return as_text(value["value"]) if isinstance(value["value"], list) else _json_text(value["value"])
    return _json_text(value)


def parse_call(block: dict[str, Any]) -> Part:
    """Parses a tool call: a part of a content, or an item of a message's list of calls."""
    type_ = _type_of(block)
    inner = block["function"] if isinstance(block.get("function"), dict) else _fields_of(block, type_)
    given = next((inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None), None)
    arguments = given if isinstance(given, str) else canonical_bytes({} if given is None else given).decode()
    named = (inner.get(key) for key in ("name", "tool_name", "toolName", "function"))
    name = next((value for value in named if isinstance(value, str)), "")
    return Part("call", type_, id=_first_id(block, inner, _CALL_IDS), name=name, arguments=arguments)


def id_text(value: Any) -> str:
    """Returns an id; of several (Microsoft's agents give the run's before the call's) the last."""
    return text_or_none(value[-1] if isinstance(value, list) and value else value) or ""


def _parse_part(part: dict[str, Any]) -> Iterator[Part]:
    kind, type_ = kind_of(part), _type_of(part)
    if kind == "call":
        call = parse_call(part)
        yield call
        if type_ == "mcp_call" and part.get("output") is not None:  # the one item that holds its result
            yield Part("result", type_, as_text(part["output"]), call.id, error=bool(part.get("error")))
    elif kind == "result":
        yield _parse_result(part, type_)
    elif kind == "reasoning":
        yield Part(kind, type_, _reasoning_text(part))
    elif kind == "text":
        yield Part(kind, type_, as_text(part.get("text", part.get("content", part.get("refusal")))))
    else:
        yield Part(kind, type_)


def _parse_result(part: dict[str, Any], type_: str) -> Part:
    inner = _fields_of(part, type_)
    held = (inner.get(key) for key in ("output", "content", "response", "result"))
    content = next((value for value in held if value is not None), None)
    wrapped = text_or_none(content.get("type")) if isinstance(content, dict) and "value" in content else None
    failed = inner.get("is_error") is True or inner.get("isError") is True or inner.get("status") == "error"
    failed = failed or text_or_none(part.get("outcome")) in ("failed", "retried", "denied")
    failed = failed or wrapped in ("error-text", "error-json")
    return Part("result", type_, as_text(content), _first_id(part, inner, _RESULT_IDS), error=failed)


def _reasoning_text(part: dict[str, Any]) -> str:
    inner = part.get("reasoningContent")
    fields = inner.get("reasoningText", inner) if isinstance(inner, dict) else part
    if not isinstance(fields, dict):
        return as_text(fields)
    held = (fields.get(key) for key in ("thinking", "reasoning", "thought", "text", "summary", "content"))
    return as_text(next((value for value in held if isinstance(value, str | list) and value), None))


def _type_of(part: dict[str, Any]) -> str:
    type_ = text_or_none(part.get("type")) or text_or_none(part.get("part_kind"))
    if type_ is not None:
        return type_
    if part.get("thought") is True:
        return "thinking"
    if isinstance(part.get("text", part.get("content")), str):
        return "text"
    return next((key for key in _WRAPPERS if part.get(key) is not None), "unnamed")


def _fields_of(part: dict[str, Any], type_: str) -> dict[str, Any]:
    inner = part.get(type_)
    return inner if isinstance(inner, dict) else part


def _first_id(part: dict[str, Any], inner: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((found for at in (part, inner) for key in keys if (found := id_text(at.get(key)))), "")


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()


def _is_text(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return text_or_empty(value.get("type", "text")) in _TEXT and isinstance(value.get("text"), str)


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and (_is_text(value) or set(value) == {"json"} or _type_of(value) in _MEDIA)
