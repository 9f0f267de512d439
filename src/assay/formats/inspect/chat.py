"""Inspect's chat messages and tools, as parts of steps and in the shape of Chat Completions, and back.

Each way back renders the record alone; the source's other fields are kept as a diff (`round_trip`).
"""

from __future__ import annotations

from typing import Any

from assay.formats.shared.builder import split_text_parts, tool_call
from assay.formats.shared.messages import answered_call
from assay.formats.shared.round_trip import diff_json, patch_json
from assay.formats.shared.round_trip_builder import objects_in
from assay.records import ModelCall, Observation, Step, ToolCall, canonical_bytes

REST = "inspect"
"""Key of the Inspect fields that a record keeps."""
_ROLES = {"system": "system", "developer": "system"}
"""Roles of the environment that Inspect has."""


def index_tool_calls(message: Any) -> Any:
    """Keys a message's tool calls by number, so that each is compared with its own."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(calls, list) or not calls:
        return message
    return {**message, "tool_calls": {str(number): call for number, call in enumerate(calls)}}


def unindex_tool_calls(message: Any) -> Any:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(calls, dict) or list(calls) != [str(number) for number in range(len(calls))]:
        return message
    return {**message, "tool_calls": list(calls.values())}


def tool_calls_of(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls")
    return tuple(_tool_call(call) for call in (calls if isinstance(calls, list) else ()) if isinstance(call, dict))


def _tool_call(call: dict[str, Any]) -> ToolCall:
    made = tool_call(str(call.get("id", "")), str(call.get("function", "")), call.get("arguments"))
    error = call.get("parse_error")
    return ToolCall(made.id, made.name, made.arguments, made.parsed, str(error)) if error else made


def reasoning_of(message: dict[str, Any]) -> str | None:
    """Returns the recorded reasoning of a message."""
    parts = objects_in(message.get("content"))
    texts = [str(p["reasoning"]) for p in parts if p.get("type") == "reasoning" and p.get("reasoning")]
    return "\n".join(texts) or None


def observation_of(message: dict[str, Any]) -> Observation:
    """Converts a tool message; an error's message stands in for missing content."""
    text, _ = split_text_parts(message.get("content"))
    error = message.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    said = str(error.get("message") or "") if isinstance(error, dict) else ""
    call = message.get("tool_call_id")
    return Observation(text or said, str(call) if call else None, error=bool(error), timed_out=kind == "timeout")


def render_message(step: Step, part: str, _call: ModelCall | None = None) -> Any:
    """Renders the message of a step's part: its own (`message`), or a tool's result (`result 0`)."""
    if part.startswith("result "):
        position = int(part.removeprefix("result "))
        seen, answered = step.observations[position], answered_call(step, position)
        fresh: dict[str, Any] = {"content": seen.content, "role": "tool"}
        fresh |= {"tool_call_id": seen.call_id} if seen.call_id else {}
        fresh |= {"function": answered.name} if answered is not None and answered.name else {}
        kind = "timeout" if seen.timed_out else "unknown"
        return fresh | ({"error": {"type": kind, "message": seen.content}} if seen.error else {})
    fresh = {"content": step.message or "", "role": _role(step)}
    if step.reasoning:
        said = [{"type": "text", "text": step.message}] if step.message else []
        fresh["content"] = [{"type": "reasoning", "reasoning": step.reasoning}, *said]
    if step.tool_calls:
        fresh["tool_calls"] = {str(number): _fresh_call(call) for number, call in enumerate(step.tool_calls)}
    return fresh


def _role(step: Step) -> str:
    """Returns a step's role among those of Inspect, where only an assistant calls tools."""
    if step.actor == "agent" or (step.actor == "other_agent" and (step.tool_calls or step.reasoning)):
        return "assistant"
    return _ROLES.get(str(step.extra.get("role")), "user") if step.actor == "environment" else "user"


def _fresh_call(call: ToolCall) -> dict[str, Any]:
    fresh = {"id": call.id, "function": call.name, "arguments": call.parsed or {}, "type": "function"}
    return fresh | ({"parse_error": call.error} if call.error else {})


def to_chat(message: dict[str, Any]) -> dict[str, Any]:
    """Converts an Inspect message to Chat Completions, with other fields under `inspect`."""
    chat: dict[str, Any] = {"role": message.get("role"), "content": message.get("content")}
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in tool_calls_of(message)
    ]
    chat |= {"tool_calls": calls} if calls else {}
    chat |= {"tool_call_id": message["tool_call_id"]} if isinstance(message.get("tool_call_id"), str) else {}
    rest = diff_json(index_tool_calls(message), _fresh_message(chat))
    return chat | ({REST: rest} if rest is not None else {})


def from_chat(chat: dict[str, Any]) -> dict[str, Any]:
    """Converts a Chat Completions message to an Inspect message."""
    made: dict[str, Any] = unindex_tool_calls(patch_json(_fresh_message(chat), chat.get(REST)))
    return (
        made
        if REST in chat or made.get("role") in ("system", "user", "assistant", "tool")
        else {**made, "role": "user"}
    )


def _fresh_message(chat: dict[str, Any]) -> dict[str, Any]:
    role = chat.get("role")
    fresh: dict[str, Any] = {"content": chat.get("content"), "role": "system" if role == "developer" else role}
    if REST not in chat:
        fresh["content"] = _content(chat.get("content"))
    calls = chat.get("tool_calls")
    if isinstance(calls, list) and calls:
        fresh["tool_calls"] = {str(number): _fresh_chat_call(call) for number, call in enumerate(calls)}
    if isinstance(chat.get("tool_call_id"), str):
        fresh["tool_call_id"] = chat["tool_call_id"]
    return fresh


def _fresh_chat_call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    named = function if isinstance(function, dict) else {}
    text = named.get("arguments")
    made = tool_call(str(call.get("id", "") if isinstance(call, dict) else ""), str(named.get("name", "")), text)
    return _fresh_call(made)


def _content(content: Any) -> Any:
    """Converts foreign content to Inspect's parts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    return [_part(part) for part in parts]


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("type") in ("text", "input_text"):
        return {"type": "text", "text": part["text"]}
    image = part.get("image_url") if isinstance(part, dict) else None
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        return {"type": "image", "image": image["url"]}
    return {"type": "text", "text": canonical_bytes(part).decode()}


def to_chat_tool(tool: Any) -> dict[str, Any]:
    """Converts a tool's description to Chat Completions."""
    return {"type": "function", "function": tool}


def from_chat_tool(tool: Any, *, own: bool) -> Any:
    """Converts a tool's description to Inspect's form; a foreign one keeps name and description."""
    function = tool.get("function") if isinstance(tool, dict) else None
    if own:
        return function
    named = function if isinstance(function, dict) else {}
    return {"name": str(named.get("name", "")), "description": str(named.get("description") or "")}
