"""The events that `codex exec --json` prints, as steps: what an agent said, ran and changed, with exit codes.

An answer of the model is not marked there. A message begins a step; a command that begins when no other runs and the
step has had one already begins the next, since the model must have answered in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.formats.codex.items import exit_code
from assay.formats.shared.building import Building, tool_call
from assay.formats.shared.mirrored import MOST, text_or_none, whole_number, word
from assay.formats.shared.reading import Bad
from assay.records import ModelCall, Observation, Step, Usage

__all__ = ["read_events"]

_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")
_CALLS = {"command_execution": "shell", "file_change": "apply_patch", "mcp_tool_call": "", "web_search": "web_search"}


class _Read:
    """Events while they are read."""

    def __init__(self, built: Building, model: str) -> None:
        self._built, self._model = built, model
        self._step: Step | None = None
        self._begun: dict[str, dict[str, Any]] = {}
        self._listed: Any = None
        self.thread: str | None = None
        self.ended: str | None = None
        self.errors: list[str] = []

    def event(self, event: dict[str, Any]) -> bool:
        """Reads one; False where it is none of a known kind."""
        kind, item = word(event.get("type")), event.get("item")
        if kind == "thread.started":
            self.thread = text_or_none(event.get("thread_id"))
        elif kind in {"item.started", "item.updated"} and isinstance(item, dict):
            self._begin(item)
        elif kind == "item.completed" and isinstance(item, dict):
            if self._begun.pop(str(item.get("id")), None) is None:
                self._between()
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
        elif word(item.get("type")) in _CALLS:
            self._between()
            self._begun[str(item.get("id"))] = item

    def _between(self) -> None:
        """Whether the model has answered since the last command."""
        if self._step is not None and self._step.tool_calls and not self._begun:
            self._step = None

    def _plan(self, item: dict[str, Any]) -> None:
        """A list of things to do stands open through a turn: each of its states is a call."""
        if item.get("items") != self._listed:
            self._listed = item.get("items")
            self._between()
            self._called(item, "todo_list", {"items": item.get("items")}, None)

    def _item(self, item: dict[str, Any]) -> None:
        kind = word(item.get("type"))
        if kind == "agent_message":
            self._step = self._built.step("agent", text_or_none(item.get("text")))
        elif kind == "reasoning":
            self._step = self._built.step("agent", reasoning=text_or_none(item.get("text")))
        elif kind == "todo_list":
            self._plan(item)
        elif kind == "error":
            self.errors.append(text_or_none(item.get("message")) or "an error without a text")
        elif kind in _CALLS:
            self._act(item, str(kind))
        else:
            self._called(item, str(kind), {k: v for k, v in item.items() if k not in {"id", "type"}}, None)

    def _act(self, item: dict[str, Any], kind: str) -> None:
        name = _CALLS[kind] or f"{item.get('server')}.{item.get('tool')}"
        keys = {"command_execution": ("command",), "file_change": ("changes",), "web_search": ("query",)}
        asked = {key: item.get(key) for key in keys.get(kind, ("arguments",))}
        output = text_or_none(item.get("aggregated_output"))
        failed = item.get("status") == "failed"
        seen = None
        if word(item.get("status")) not in {"", "in_progress"}:
            content = output if output is not None else str(item.get("status"))
            seen = self._built.observation(
                content, str(item.get("id")), exit_code=exit_code(item.get("exit_code")), error=failed
            )
        self._called(item, name, asked, seen)

    def _called(self, item: dict[str, Any], name: str, asked: dict[str, Any], seen: Observation | None) -> None:
        call = tool_call(str(item.get("id")), name, asked)
        found = (seen,) if seen is not None else ()
        step = self._step
        if step is None or len(step.tool_calls) >= MOST:
            self._step = self._built.step("agent", tool_calls=(call,), observations=found)
            return
        self._step = self._built.change(
            step, tool_calls=(*step.tool_calls, call), observations=(*step.observations, *found)
        )

    def _usage(self, usage: Any) -> None:
        self.ended = "the turn was completed"
        if isinstance(usage, dict):
            told = Usage(*(whole_number(usage.get(key)) for key in _USAGE))
            name = f"turn-{len(self._built.calls)}"
            self._built.call(ModelCall(name, "openai-responses", self._model, {}, {}, usage=told))

    def rest(self) -> None:
        """Commands that never ended: calls without a result."""
        for item in self._begun.values():
            self._act({**item, "status": "in_progress"}, str(item["type"]))


def read_events(built: Building, events: Iterable[tuple[str, Any]], bad: Bad, model: str) -> _Read:
    """Reads events, each with its place, into `built`. What is none is told."""
    found = _Read(built, model)
    for where, event in events:
        if not isinstance(event, dict) or not found.event(event):
            bad(where, "it is no event of Codex")
    found.rest()
    return found
