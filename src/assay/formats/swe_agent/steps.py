"""Converts entries and messages of SWE-agent to steps, and back. The history's `message_type` is not used: older files
lack it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.formats.shared.builder import tool_call
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.messages import chat_calls, content_text, read_message
from assay.formats.shared.round_trip_builder import RoundTripBuilder, number, text_or_empty, text_or_none
from assay.records import ModelCall, Observation, Step, ToolCall, canonical_bytes, pair_observations

_TOOLS = frozenset(
    {
        *("open", "goto", "create", "edit", "insert", "append", "scroll_up", "scroll_down", "submit", "exit_cost"),
        *("search_dir", "search_file", "find_file", "exit_forfeit", "str_replace_editor", "view_image", "state"),
        *("debug_start", "debug_stop", "connect_start", "connect_sendline"),
    }
)
_QUERIES = ("messages", "query")
_ENTRY = frozenset({"action", "observation", "response", "thought"})
"""Fields of an entry that are text."""


class TrajReader:
    """Reads the two lists of a document."""

    def __init__(self, builder: RoundTripBuilder, bad: WarnFunction) -> None:
        self._builder, self._bad = builder, bad
        self._history: list[Any] = []
        self._next = 0
        self._conversation: list[Any] = []
        """The messages of the last model call and its answer."""
        self._last_call: str | None = None

    def read(self, entries: list[Any] | None, history: list[Any] | None) -> None:
        """Reads both lists; without entries the history alone is the trajectory."""
        self._history = history or []
        if not entries:
            self._messages(len(self._history))
            return
        first = next((i for i, m in enumerate(self._history) if _role(m) == "assistant"), len(self._history))
        if first and _role(self._history[0]) != "assistant":
            self._messages(first)
        for position, entry in enumerate(entries):
            if isinstance(entry, dict):
                self._check(entry, f"trajectory[{position}]")
                self._entry(entry, position)
            else:
                self._bad(f"trajectory[{position}]", f"expected an entry, found {type(entry).__name__}")
        self._others(len(self._history))

    def _check(self, entry: dict[str, Any], where: str) -> None:
        """Reports an entry that holds nothing of SWE-agent's, and fields that are no text."""
        if not _ENTRY & set(entry):
            self._bad(where, f"not an entry of SWE-agent: it has none of {', '.join(sorted(_ENTRY))}")
        for key in sorted(_ENTRY & set(entry)):
            if entry[key] is not None and not isinstance(entry[key], str):
                self._bad(f"{where}.{key}", f"expected text, found {type(entry[key]).__name__}: it is kept unread")

    def _messages(self, until: int) -> None:
        for position in range(self._next, until):
            message = self._history[position]
            where = f"history[{position}]"
            extra = {"is_demo": True} if isinstance(message, dict) and message.get("is_demo") is True else {}
            if _role(message) == "tool" and isinstance(ids := message.get("tool_call_ids"), list) and ids:
                call_id = text_or_none(ids[0])
                seen = Observation(content_text(message.get("content")) or "", call_id)
                self._builder.add_answer(seen, message, "history")
            else:
                read_message(self._builder, message, self._bad, where, "history", extra=extra)
        self._next = until

    def _others(self, until: int) -> None:
        """Reads messages without an entry: those of users are turns; an answer without an action is kept beside
        them."""
        for position in range(self._next, until):
            message = self._history[position]
            if isinstance(message, dict) and _role(message) not in {"user", "system"}:
                self._builder.keep_item(message, "other", None, "history")
            else:
                read_message(self._builder, message, self._bad, f"history[{position}]", "history")
        self._next = until

    def _entry(self, entry: dict[str, Any], position: int) -> None:
        said = self._answer_to(entry)
        self._others(said if said is not None else self._next)
        message = self._history[said] if said is not None else None
        calls = _calls(entry, message, len(self._builder.steps))
        seen = Observation(
            text_or_none(entry.get("observation")) or "",
            calls[0].id if calls else None,
            duration_s=number(entry.get("execution_time")),
        )
        step = self._builder.add_step(
            "agent",
            text_or_none(entry.get("response", entry.get("thought"))),
            tool_calls=calls,
            observations=(seen,),
            call=self._exchange(entry, message, position),
        )
        self._builder.keep_item(entry, "entry 0", step, "trajectory")
        if said is None:
            return
        self._builder.keep_item(message, "said", step, "history")
        self._next = said + 1
        after = self._history[self._next] if self._next < len(self._history) else None
        acted = bool(calls) and not chat_calls(message or {})
        if isinstance(after, dict) and (_role(after) == "tool" or (_role(after) == "user" and acted)):
            self._builder.keep_item(after, "seen 0", step, "history")
            self._next += 1

    def _answer_to(self, entry: dict[str, Any]) -> int | None:
        """Returns the position of an entry's message in the history, which may differ in wording; else None."""
        first = True
        for position in range(self._next, len(self._history)):
            message = self._history[position]
            if _role(message) != "assistant":
                continue
            said = content_text(message.get("content")) == entry.get("response")
            done = message.get("action", entry.get("action")) == entry.get("action")
            if (said and done) or (first and (said or (done and bool(entry.get("action"))))):
                return position
            first = False
        return None

    def _exchange(self, entry: dict[str, Any], answer: Any, position: int) -> str | None:
        """Adds the model call, if the entry has its request; messages shared with the call before are left out."""
        field = next((key for key in _QUERIES if isinstance(entry.get(key), list)), None)
        if field is None:
            return None
        messages = entry[field]
        pairs = zip(messages, self._conversation, strict=False)
        shared = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(messages), len(self._conversation)))
        self._conversation = [*messages, *([answer] if isinstance(answer, dict) else [])]
        call = ModelCall(
            f"call-{position}",
            "openai-chat",
            "unknown",
            {"messages": messages[shared:]},
            {"choices": [{"message": answer}]} if isinstance(answer, dict) else {},
            parent=self._last_call,
            shared_messages=shared,
            lineage={"field": field},
        )
        self._last_call = call.id
        return self._builder.add_call(call)


def _role(message: Any) -> str:
    return text_or_empty(message.get("role")) if isinstance(message, dict) else ""


def _calls(entry: dict[str, Any], message: Any, position: int) -> tuple[ToolCall, ...]:
    named = chat_calls(message) if isinstance(message, dict) else ()
    if named:
        return named
    action = text_or_none(entry.get("action"))
    if not action or not action.strip():
        return ()
    first = action.split(maxsplit=1)[0]
    return (tool_call(f"action-{position}", first if first in _TOOLS else "bash", {"command": action}),)


def _entries(step: Step) -> int:
    return max(len(step.tool_calls), len(step.observations), 1)


def trajectory_plan(step: Step) -> Iterator[str]:
    """Yields the parts that a step is written as in `trajectory`."""
    if step.actor in {"agent", "other_agent"}:
        yield from (f"entry {i}" for i in range(_entries(step)))


def history_plan(step: Step) -> Iterator[str]:
    """Yields the parts that a step is written as in `history`."""
    if step.actor not in {"agent", "other_agent"}:
        yield "message"
        return
    yield "said"
    yield from (f"seen {i}" for i in range(len(step.observations)))


class EntryRenderer:
    """Renders steps as entries and messages, in order."""

    def __init__(self) -> None:
        self._conversation: dict[str, list[Any]] = {}

    def __call__(self, step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
        kind, _, position = part.partition(" ")
        at = int(position or 0)
        if kind == "entry":
            return {**_entry(step, at), **(self._query_fields(call) if call is not None and at == 0 else {})}
        if kind == "said":
            return _assistant_message(step)
        if kind == "seen" or kind == "result":
            return _tool_message(step, at)
        role = step.extra.get("role") if step.actor == "environment" else step.actor
        seen = "\n".join(o.content for o in step.observations) if step.observations else None
        return {"role": role if isinstance(role, str) else "system", "content": step.message or seen, "agent": "main"}

    def _query_fields(self, call: ModelCall) -> dict[str, Any]:
        field = call.lineage.get("field")
        if field is None:
            return {}
        before = self._conversation.get(call.parent or "", [])[: call.shared_messages]
        messages = [*before, *call.request.get("messages", [])]
        choices = (call.response or {}).get("choices") or []
        self._conversation[call.id] = [*messages, *(choice["message"] for choice in choices)]
        return {field: messages}


def _entry(step: Step, at: int) -> dict[str, Any]:
    call = step.tool_calls[at] if at < len(step.tool_calls) else None
    seen = _observation(step, at)
    said = step.message if at == 0 else ""
    made: dict[str, Any] = {"action": _action(call), "observation": seen.content if seen else "", "response": said}
    made["thought"] = said
    made |= {"execution_time": seen.duration_s} if seen is not None and seen.duration_s is not None else {}
    return made


def _observation(step: Step, at: int) -> Observation | None:
    if at < len(step.tool_calls):
        return next(iter(pair_observations(step.tool_calls, step.observations)[at]), None)
    return step.observations[at] if at < len(step.observations) else None


def _action(call: ToolCall | None) -> str:
    """Returns a call as a command of SWE-agent's shell."""
    if call is None:
        return ""
    if call.parsed is not None and isinstance(command := call.parsed.get("command"), str) and len(call.parsed) == 1:
        return command
    words = [] if call.parsed is None else [_word(value) for value in call.parsed.values()]
    return " ".join([call.name, *words]) if call.parsed is not None else f"{call.name} {call.arguments}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()


def _assistant_message(step: Step) -> dict[str, Any]:
    made: dict[str, Any] = {"role": "assistant", "content": step.message, "thought": step.message}
    first = step.tool_calls[0] if step.tool_calls else None
    made |= {"action": _action(first), "agent": "main"}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in step.tool_calls
    ]
    return made | ({"tool_calls": calls} if calls and not step.tool_calls[0].id.startswith("action-") else {})


def _tool_message(step: Step, at: int) -> dict[str, Any]:
    seen = step.observations[at]
    made: dict[str, Any] = {"role": "tool", "content": seen.content, "agent": "main"}
    return made | ({"tool_call_ids": [seen.call_id]} if seen.call_id is not None else {})
