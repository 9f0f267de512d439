"""Converts model replies to executable tool calls and to a conversation that can be sent again.

Malformed calls never raise: they become a `ToolCall` with `error`, answered with an error observation and not executed.
The record keeps the raw text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from assay.environments.interface import ToolSpec
from assay.records import Observation, Task, ToolCall

from ._schema import validate

MOST_CALLS = 128
"""Maximum number of calls executed per reply; the recorded reply keeps the rest."""
_MAX_DEPTH = 64
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()


def parse_calls(raw: list[Any], tools: Mapping[str, ToolSpec], turn: int) -> list[ToolCall]:
    """Parses the first 128 `tool_calls` of an assistant message, in order, making ids unique."""
    calls: list[ToolCall] = []
    used: set[str] = set()
    for position, raw_call in enumerate(raw[:MOST_CALLS]):
        call = _parse(raw_call, tools, f"call_{turn}_{position}")
        if call.id in used:
            call = msgspec.structs.replace(call, id=f"{call.id[:40]}_{turn}_{position}")
        used.add(call.id)
        calls.append(call)
    return calls


def _parse(raw_call: Any, tools: Mapping[str, ToolSpec], fallback: str) -> ToolCall:
    function = raw_call.get("function") if isinstance(raw_call, dict) else None
    if not isinstance(function, dict):
        return ToolCall(fallback, "", _text(raw_call), error="a tool call must be an object with a `function`")
    identity, name, arguments = raw_call.get("id"), function.get("name"), function.get("arguments")
    if not isinstance(identity, str) or not identity:
        identity = fallback
    raw = arguments if isinstance(arguments, str) else _text(arguments)
    if not isinstance(name, str):
        return ToolCall(identity, "", raw, error="the name of a tool must be text")
    spec = tools.get(name)
    if spec is None:
        return ToolCall(identity, name, raw, error=f"no tool is called {name[:80]!r}; known: {', '.join(tools)}")
    try:
        # Servers send nothing, null or an empty text for a tool without arguments.
        parsed = _DECODER.decode(raw) if raw not in {"", "null"} else {}
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        return ToolCall(identity, name, raw, error=f"the arguments are no JSON: {exc}")
    if raw.count("[") + raw.count("{") > _MAX_DEPTH and _is_deep(parsed):
        return ToolCall(identity, name, raw, error=f"the arguments are nested more than {_MAX_DEPTH} deep")
    found = validate(spec.parameters, parsed) if isinstance(parsed, dict) else "the arguments must be a JSON object"
    if found is not None:
        return ToolCall(identity, name, raw, parsed if isinstance(parsed, dict) else None, found)
    return ToolCall(identity, name, raw, parsed)


def _is_deep(value: Any) -> bool:
    """Returns whether recording the value could exceed the encoder's depth limit."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return False
    return True


def _text(value: Any) -> str:
    return "" if value is None else _ENCODER.encode(value).decode()


def assistant_message(content: Any, calls: list[ToolCall]) -> dict[str, Any]:
    """Builds the assistant message to send again. Arguments that are not a JSON object are wrapped, because chat
    templates of common servers decode them and otherwise refuse the conversation."""
    message: dict[str, Any] = {"role": "assistant", "content": content if content or calls else ""}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _sendable(call)}}
            for call in calls
        ]
    return message


def _sendable(call: ToolCall) -> str:
    if call.parsed is None:
        return _ENCODER.encode({"malformed_arguments": call.arguments}).decode()
    return call.arguments if call.arguments not in {"", "null"} else "{}"


def text_of(content: Any) -> str:
    """Returns the text of a message's content: itself, or its text parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return ""


def instruction_of(task: Task) -> str:
    """Returns the task's text; for a conversation, the joined texts of its messages."""
    if isinstance(task.instruction, str):
        return task.instruction
    return "\n\n".join(text_of(message.content) for message in task.instruction)


def render_observation(observation: Observation, limit: int) -> str:
    """Returns an observation as shown to the model: `limit` characters per stream, the middle cut, and the error."""
    text = _cut(observation.content, limit)
    if observation.stderr:
        text += f"\n[stderr]\n{_cut(observation.stderr, limit)}"
    if observation.timed_out:
        text += "\n[timed out]"
    if observation.exit_code:
        text += f"\n[exit code {observation.exit_code}]"
    return text


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit // 2
    tail = limit - head
    return f"{text[:head]}\n[{len(text) - limit} characters cut]\n{text[len(text) - tail :]}"
