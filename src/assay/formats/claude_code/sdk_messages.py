"""Messages of the Agent SDK: those of `claude -p`, and Python's dataclasses, which name no types, in the same shape."""

from __future__ import annotations

from typing import Any

from assay.formats.shared.sniffing import SniffResult

_BLOCKS = (("thinking", "thinking"), ("tool_use_id", "tool_result"), ("input", "tool_use"), ("text", "text"))
"""A field that only this kind of block has, and the kind."""


def is_sdk_stream(seen: SniffResult) -> bool:
    """Returns whether a file holds messages of `claude -p` or of the Agent SDK."""
    prefix = {"array": "[].", "object": "", "lines": ""}.get(seen.shape)
    if prefix is None:
        return False
    values = {key: seen.values.get(f"{prefix}{key}") for key in ("type", "subtype", "session_id", "data.type")}
    kind = values["type"]
    if isinstance(kind, str):
        named = isinstance(values["session_id"], str)
        began = kind in ("system", "result") and isinstance(values["subtype"], str)
        return named and (began or kind in ("assistant", "user", "stream_event"))
    began = values["data.type"] == "system" and isinstance(values["subtype"], str)
    answered = seen.has(f"{prefix}content", f"{prefix}parent_tool_use_id", f"{prefix}uuid")
    ended = seen.has(f"{prefix}num_turns", f"{prefix}is_error", f"{prefix}session_id", f"{prefix}subtype")
    return began or answered or ended


def as_stream_line(line: Any) -> Any:
    """Returns a message of Python's Agent SDK as `claude -p` prints it; other lines unchanged."""
    if not isinstance(line, dict) or "type" in line:
        return line
    if isinstance(line.get("data"), dict) and "subtype" in line:
        return {"type": "system", **line["data"]}
    if "num_turns" in line and "subtype" in line:
        return {"type": "result", **line}
    if "content" not in line or "parent_tool_use_id" not in line:
        return {"type": "stream_event", **line} if "event" in line else line
    beside = {k: v for k, v in line.items() if k not in ("content", "model", "usage", "message_id", "stop_reason")}
    if "model" not in line:
        return {"type": "user", "message": {"role": "user", "content": _typed(line["content"])}, **beside}
    message = {"role": "assistant", "id": line.get("message_id"), "model": line["model"], "usage": line.get("usage")}
    message |= {"stop_reason": line.get("stop_reason"), "content": _typed(line["content"])}
    return {"type": "assistant", "message": message, **beside}


def session_of(line: Any) -> str | None:
    """Returns the session that a message of `claude -p` names."""
    session = line.get("session_id") if isinstance(line, dict) else None
    return session if isinstance(session, str) else None


def is_named_line(line: dict[str, Any]) -> bool:
    """Returns whether a line names itself: by `uuid`, by its answer's id, or by the call that it answers."""
    message = line.get("message")
    if isinstance(line.get("uuid"), str) or not isinstance(message, dict):
        return isinstance(line.get("uuid"), str)
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    answers = any(isinstance(block, dict) and isinstance(block.get("tool_use_id"), str) for block in blocks)
    return answers or (line.get("type") == "assistant" and isinstance(message.get("id"), str))


def _typed(content: Any) -> Any:
    """Returns content with the kind of each block."""
    return [_typed_block(block) for block in content] if isinstance(content, list) else content


def _typed_block(block: Any) -> Any:
    if not isinstance(block, dict) or "type" in block:
        return block
    kind = next((kind for key, kind in _BLOCKS if key in block), None)
    return block if kind is None else {"type": kind, **block}
