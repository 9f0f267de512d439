"""Parts of a message's content: Anthropic's blocks, and those of Bedrock and of the Vercel AI SDK that mean the same.

Text, reasoning, tool calls and tool results are recognised; a part of any other kind is named, and its message is kept
whole by the reader.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.formats.shared.builder import tool_call
from assay.records import Observation, ToolCall, canonical_bytes

_TEXT = frozenset({"text", "input_text", "output_text", "refusal"})
_MEDIA = frozenset(
    {
        *("image", "image_url", "input_image", "audio", "input_audio", "video", "video_url", "file", "input_file"),
        *("document", "cache_control", "cachePoint", "redacted_thinking", "tool_reference", "search_result"),
    }
)
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool-call"})
_WRAPPED = ("toolUse", "toolResult", "reasoningContent", "image", "document", "video", "cachePoint", "text")


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
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    results: list[Observation] = []
    unknown: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        kind, held = _kind_of(part)
        if kind in _CALLS:
            calls.append(_call(held))
        elif kind == "tool_result" or kind.endswith(("_tool_result", "tool-result")):
            results.append(_result(held))
        elif kind in ("thinking", "reasoning"):
            thoughts.append(_first_text(held, "thinking", "text", "reasoning") or "")
        elif kind in _TEXT or isinstance(held.get("text"), str):
            texts.append(_first_text(held, "text", "refusal") or "")
        elif kind not in _MEDIA:
            unknown.append(kind)
    text = "\n".join(texts) if texts else None
    return ContentParts(text, "\n\n".join(filter(None, thoughts)) or None, tuple(calls), tuple(results), tuple(unknown))


def _kind_of(part: Any) -> tuple[str, dict[str, Any]]:
    """Returns the kind of a part and its fields; Bedrock names the kind by the key that wraps the fields."""
    if isinstance(part, str):
        return "text", {"text": part}
    if not isinstance(part, dict):
        return type(part).__name__, {}
    if isinstance(part.get("type"), str):
        return part["type"], part
    key = next((name for name in _WRAPPED if part.get(name) is not None), "")
    inside = part.get(key)
    held = inside if isinstance(inside, dict) else part
    if key == "reasoningContent":
        nested = held.get("reasoningText")
        return "reasoning", nested if isinstance(nested, dict) else {}
    return {"toolUse": "tool_use", "toolResult": "tool_result"}.get(key, key or "unnamed"), held


def _call(part: dict[str, Any]) -> ToolCall:
    id_, name = _first_text(part, "id", "toolUseId", "toolCallId"), _first_text(part, "name", "toolName")
    return tool_call(id_ or "", name or "", next((part[k] for k in ("input", "args", "arguments") if k in part), None))


def _result(part: dict[str, Any]) -> Observation:
    content = next((part[k] for k in ("content", "output", "result") if part.get(k) is not None), None)
    error = part.get("is_error") is True or part.get("isError") is True or part.get("status") == "error"
    return Observation(_result_text(content), _first_text(part, "tool_use_id", "toolUseId", "toolCallId"), error=error)


def _result_text(content: Any) -> str:
    """Returns a result as text: texts joined, other values as JSON."""
    if isinstance(content, str) or content is None:
        return content or ""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(_value_text(part) for part in parts)


def _value_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    value = part.get("value", part.get("json", part)) if isinstance(part, dict) else part
    return value if isinstance(value, str) else canonical_bytes(value).decode()


def _first_text(part: dict[str, Any], *keys: str) -> str | None:
    return next((value for key in keys if isinstance(value := part.get(key), str)), None)
