"""Chat messages as the OpenAI API has them (`role`, `content`, `tool_calls`, `tool_call_id`) and the steps they become.

Shared by the formats whose trajectory is a list of such messages (tau-bench, mini-swe-agent, SWE-agent's history),
which `round_trip` restores exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from assay.formats.shared.builder import tool_call
from assay.formats.shared.content_parts import ContentParts, read_parts
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.round_trip_builder import RoundTripBuilder, text_or_none
from assay.records import Actor, ModelCall, Observation, Step, ToolCall, match_calls

_ACTORS: dict[str, Actor] = {"assistant": "agent", "user": "user", "tool": "environment", "function": "environment"}
_ACTORS |= {"model": "agent", "ai": "agent", "human": "user"}
_REASONING = ("reasoning_content", "reasoning", "thinking")
KNOWN_ROLES = frozenset({"system", "developer", *_ACTORS})


def actor_of(role: str) -> Actor:
    """Returns the actor of a role. A system prompt belongs to the environment."""
    return _ACTORS.get(role, "environment")


def role_of(step: Step, default_role: str) -> str:
    """Returns the role of a step. `place`: that of the environment, by default."""
    if step.actor in {"agent", "other_agent"}:
        return "assistant"
    role = step.extra.get("role")
    return step.actor if step.actor == "user" else (role if isinstance(role, str) else default_role)


def iso_time(at: float | None) -> str | None:
    """Formats Unix seconds as an ISO time; None for invalid ones."""
    return datetime.fromtimestamp(at, UTC).isoformat() if at is not None and 0 <= at < 1e11 else None


def content_text(content: Any) -> str | None:
    """Returns the text of a message's content, parts joined by line ends; None without content."""
    if content is None or isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def chat_calls(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    """Returns the tool calls of a message, without invalid ones.

    A call is OpenAI's (`function`, or `custom` with a text), or has its name beside its id, as in LangChain (`args`)
    and in templates of open models (`arguments`).
    """
    calls = message.get("tool_calls")
    read = (_chat_call(call) for call in (calls if isinstance(calls, list) else ()) if isinstance(call, dict))
    found = [call for call in read if call is not None]
    old = message.get("function_call")
    if not found and isinstance(old, dict):
        found.append(tool_call("", text_or_none(old.get("name")) or "", old.get("arguments")))
    return tuple(found)


def _chat_call(call: dict[str, Any]) -> ToolCall | None:
    id_ = text_or_none(call.get("id")) or ""
    if isinstance(function := call.get("function"), dict):
        return tool_call(id_, text_or_none(function.get("name")) or "", function.get("arguments"))
    if isinstance(custom := call.get("custom"), dict):
        return tool_call(id_, text_or_none(custom.get("name")) or "", custom.get("input"))
    given = next((call[name] for name in ("arguments", "args", "input") if name in call), None)
    return tool_call(id_, name, given) if (name := text_or_none(call.get("name"))) else None


def _reasoning_of(message: dict[str, Any]) -> str | None:
    """Returns the reasoning beside a message's content, as servers of open models name it."""
    return next((text for name in _REASONING if (text := text_or_none(message.get(name)))), None)


def read_message(
    builder: RoundTripBuilder, message: Any, bad: WarnFunction, where: str, list_name: str = "", **named: Any
) -> Step | None:
    """Adds a message to a trajectory; None, with a warning, where it is invalid. `named` are fields of the step."""
    if not isinstance(message, dict):
        bad(where, f"expected a message, found {type(message).__name__}")
        return None
    role = text_or_none(message.get("role"))
    if role is None:
        bad(f"{where}.role", "the role of a message must be text")
        return None
    parts, actor = read_parts(message.get("content")), actor_of(role)
    for kind in parts.unknown[:3]:
        builder.remark(where, f"a content part of kind {kind[:50]!r} is kept with its message and not read")
    if actor != "agent" and parts.results:
        return _read_results(builder, message, parts, role, list_name)
    text = parts.text
    if role in {"tool", "function"}:
        call_id = text_or_none(message.get("tool_call_id"))
        return builder.add_answer(
            Observation(text or "", call_id, error=message.get("error") is True), message, list_name
        )
    made = chat_calls(message)
    calls = message.get("tool_calls")
    if actor == "agent" and isinstance(calls, list) and len(calls) > len(made):
        builder.remark(
            where, f"{len(calls) - len(made)} of {len(calls)} tool calls are kept and not read: unknown form"
        )
    extra = {} if role in {"user", "assistant"} else {"role": role}
    step = builder.add_step(
        actor,
        text or None if parts.calls or parts.reasoning else text,
        reasoning=_reasoning_of(message) or parts.reasoning,
        tool_calls=(*made, *parts.calls) if actor == "agent" else (),
        started=parse_time(message.get("timestamp")),
        extra={**extra, **named.pop("extra", {})},
        **named,
    )
    for seen in parts.results:
        builder.add_result(seen)
    builder.keep_item(message, "message", step, list_name)
    return step


def _read_results(
    builder: RoundTripBuilder, message: dict[str, Any], parts: ContentParts, role: str, list_name: str
) -> Step:
    """Reads a message that holds tool results, and perhaps a text beside them."""
    if len(parts.results) == 1 and not parts.text:
        return builder.add_answer(parts.results[0], message, list_name)
    step = [builder.add_result(seen) for seen in parts.results][-1]
    if parts.text:
        step = builder.add_step(actor_of(role), parts.text)
    builder.keep_item(message, "other", step, list_name)
    return step


def plan_chat_messages(step: Step) -> Iterator[str]:
    """Yields the parts of a step: its own message, if any, and one for each result."""
    if step.actor != "environment" or step.message is not None or not step.observations:
        yield "message"
    yield from (f"result {i}" for i in range(len(step.observations)))


def answered_call(step: Step, position: int) -> ToolCall | None:
    """Returns the call that the observation at a position names; None if it names no call of the step."""
    found = match_calls(step.tool_calls, step.observations)[position]
    return None if found is None else step.tool_calls[found]


def render_chat_message(step: Step, part: str, _call: ModelCall | None = None) -> dict[str, Any]:
    """Renders a part of a step as a message."""
    kind, _, position = part.partition(" ")
    if kind == "result":
        seen = step.observations[int(position)]
        answered = answered_call(step, int(position))
        made: dict[str, Any] = {"role": "tool", "content": seen.content}
        made |= {"tool_call_id": seen.call_id} if seen.call_id is not None else {}
        return made | ({"name": answered.name} if answered is not None and answered.name else {})
    if step.actor in {"agent", "other_agent"}:
        made = {"role": "assistant", "content": step.message}
        made |= {"reasoning_content": step.reasoning} if step.reasoning is not None else {}
        return made | ({"tool_calls": [_call_item(call) for call in step.tool_calls]} if step.tool_calls else {})
    return {"role": role_of(step, "system"), "content": step.message}


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
