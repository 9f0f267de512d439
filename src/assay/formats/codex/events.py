"""Converts the events of `codex exec --json` to steps: messages, commands and changes, with exit codes.

An answer of the model is not marked there. A message begins a step; a command that begins when no other runs and the
step has had one already begins the next, since the model must have answered in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.formats.shared.builder import TrajectoryBuilder, tool_call
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip_builder import MOST, count_or_none, exit_code, text_or_empty, text_or_none
from assay.records import ModelCall, Observation, Step, Usage

_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")
_CALLS = {"command_execution": "shell", "file_change": "apply_patch", "mcp_tool_call": "", "web_search": "web_search"}


class _EventReader:
    """Reads events."""

    def __init__(self, builder: TrajectoryBuilder, model: str) -> None:
        self._builder, self._model = builder, model
        self._step: Step | None = None
        self._running: dict[str, dict[str, Any]] = {}
        self._todo_items: Any = None
        self.thread: str | None = None
        self.ended: str | None = None
        self.errors: list[str] = []

    def event(self, event: dict[str, Any]) -> bool:
        """Reads an event; returns False for an unknown kind."""
        kind, item = text_or_empty(event.get("type")), event.get("item")
        if kind == "thread.started":
            self.thread = text_or_none(event.get("thread_id"))
        elif kind in {"item.started", "item.updated"} and isinstance(item, dict):
            self._begin(item)
        elif kind == "item.completed" and isinstance(item, dict):
            if self._running.pop(str(item.get("id")), None) is None:
                self._start_answer()
            self._item(item)
        elif kind == "turn.completed":
            self._usage(event.get("usage"))
        elif kind in {"error", "turn.failed"}:
            told = event.get("error")
            message = event.get("message", told.get("message") if isinstance(told, dict) else None)
            self.errors.append(text_or_none(message) or "an error without a text")
        else:
            return kind == "turn.started"
        return True

    def _begin(self, item: dict[str, Any]) -> None:
        if item.get("type") == "todo_list":
            self._plan(item)
        elif text_or_empty(item.get("type")) in _CALLS:
            self._start_answer()
            self._running[str(item.get("id"))] = item

    def _start_answer(self) -> None:
        """Ends the step where the model must have answered since the last command."""
        if self._step is not None and self._step.tool_calls and not self._running:
            self._step = None

    def _plan(self, item: dict[str, Any]) -> None:
        """Reads a todo list, which stays open through a turn: each of its states is a call."""
        if item.get("items") != self._todo_items:
            self._todo_items = item.get("items")
            self._start_answer()
            self._add_call(item, "todo_list", {"items": item.get("items")}, None)

    def _item(self, item: dict[str, Any]) -> None:
        kind = text_or_empty(item.get("type"))
        if kind == "agent_message":
            self._step = self._builder.add_step("agent", text_or_none(item.get("text")))
        elif kind == "reasoning":
            self._step = self._builder.add_step("agent", reasoning=text_or_none(item.get("text")))
        elif kind == "todo_list":
            self._plan(item)
        elif kind == "error":
            self.errors.append(text_or_none(item.get("message")) or "an error without a text")
        elif kind in _CALLS:
            self._read_action(item, str(kind))
        else:
            self._add_call(item, str(kind), {k: v for k, v in item.items() if k not in {"id", "type"}}, None)

    def _read_action(self, item: dict[str, Any], kind: str) -> None:
        name = _CALLS[kind] or f"{item.get('server')}.{item.get('tool')}"
        keys = {"command_execution": ("command",), "file_change": ("changes",), "web_search": ("query",)}
        arguments = {key: item.get(key) for key in keys.get(kind, ("arguments",))}
        output = text_or_none(item.get("aggregated_output"))
        failed = item.get("status") == "failed"
        obs = None
        if text_or_empty(item.get("status")) not in {"", "in_progress"}:
            content = output if output is not None else str(item.get("status"))
            obs = self._builder.make_observation(
                content, str(item.get("id")), exit_code=exit_code(item.get("exit_code")), error=failed
            )
        self._add_call(item, name, arguments, obs)

    def _add_call(self, item: dict[str, Any], name: str, arguments: dict[str, Any], obs: Observation | None) -> None:
        call = tool_call(str(item.get("id")), name, arguments)
        found = (obs,) if obs is not None else ()
        step = self._step
        if step is None or len(step.tool_calls) >= MOST:
            self._step = self._builder.add_step("agent", tool_calls=(call,), observations=found)
            return
        self._step = self._builder.change_step(
            step, tool_calls=(*step.tool_calls, call), observations=(*step.observations, *found)
        )

    def _usage(self, usage: Any) -> None:
        self.ended = "the turn was completed"
        if isinstance(usage, dict):
            told = Usage(*(count_or_none(usage.get(key)) for key in _USAGE))
            name = f"turn-{len(self._builder.calls)}"
            self._builder.add_call(ModelCall(name, "openai-responses", self._model, {}, {}, usage=told))

    def flush(self) -> None:
        """Adds commands that never ended, as calls without a result."""
        for item in self._running.values():
            self._read_action({**item, "status": "in_progress"}, str(item["type"]))


def read_events(
    builder: TrajectoryBuilder, events: Iterable[tuple[str, Any]], bad: WarnFunction, model: str
) -> _EventReader:
    """Reads events, each with its place, into `builder`; warns of invalid ones."""
    found = _EventReader(builder, model)
    for where, event in events:
        if not isinstance(event, dict) or not found.event(event):
            bad(where, "not a Codex event")
    found.flush()
    return found
