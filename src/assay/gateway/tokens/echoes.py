"""Classifies how a client changed an assistant turn before sending it back.

The rule: **the next prompt holds the sampled tokens.** An assistant turn in a request is the model's own turn when it
names the same tool calls by their ids (also inside a text, for clients that write calls as text), or, for a turn
without calls, says the same text up to blanks around it; `assay.gateway.call_tree` decides that. Whatever else the
client changed in it is recorded here and not shown to the model:

| change | what the client did |
|---|---|
| `spelling` | wrote the same arguments with other spacing, key order or number form |
| `keys` | left argument keys out, or put some in |
| `malformed` | replaced arguments that were no JSON object |
| `name` | renamed the tool (clients do so for calls that they cannot run) |
| `text`, `reasoning` | dropped or trimmed it |
| `form` | wrote the calls as text |
| `edited` | gave an argument that the model did give another value, or said another text beside the calls |

Only `edited` counts as a rewrite: the model is meant to see other content, so a branch begins there, rendered from the
client's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .messages import content_text, decode_arguments

Message = Mapping[str, Any]


def find_changes(original: Message, echo: Message) -> tuple[str, ...]:
    """Returns the kinds of changes from a reply to its echo, in the order of the table."""
    found: set[str] = set()
    calls, echoed = _calls(original), _calls(echo)
    if calls and not echoed:
        return ("form",)
    for call_id, function in calls.items():
        found |= _call_changes(function, echoed.get(call_id) or {})
    text, shown = content_text(original.get("content")), content_text(echo.get("content"))
    if text != shown:
        found.add("text" if shown.strip() in {"", text.strip()} else "edited")
    if _reasoning(original) != _reasoning(echo):
        found.add("reasoning")
    order = ("spelling", "keys", "malformed", "name", "text", "reasoning", "form", "edited")
    return tuple(change for change in order if change in found)


def _calls(message: Message) -> dict[str, Mapping[str, Any]]:
    return {
        str(call.get("id")): call.get("function") or {}
        for call in message.get("tool_calls") or ()
        if isinstance(call, dict)
    }


def _reasoning(message: Message) -> str:
    given = message.get("reasoning_content") or message.get("reasoning")
    return given if isinstance(given, str) else ""


def _call_changes(original: Mapping[str, Any], echo: Mapping[str, Any]) -> set[str]:
    if original.get("name") != echo.get("name"):
        return {"name"}
    if original.get("arguments") == echo.get("arguments"):
        return set()
    own, shown = decode_arguments(original.get("arguments")), decode_arguments(echo.get("arguments"))
    if isinstance(own, str) or isinstance(shown, str):
        return {"malformed"} if isinstance(own, str) else {"edited"}
    if any(not _equivalent(own[key], shown[key]) for key in own.keys() & shown.keys()):
        return {"edited"}
    return {"spelling"} if own.keys() == shown.keys() else {"keys"}


def _equivalent(one: Any, other: Any) -> bool:
    """Returns whether two values are equal up to spelling: `"5"` and `5`, or surrounding whitespace."""
    return bool(one == other) or _normalized(one) == _normalized(other)


def _normalized(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).strip()
