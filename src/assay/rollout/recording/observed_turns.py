"""Steps of an agent that is observed only through its model calls.

A reply opens a turn; its observations are in the next request of the same conversation. A turn stays open until that
request or the end of the attempt, and steps are recorded in the order in which they end.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.gateway.call_tree import content_text
from assay.gateway.pictures import text_of_parts
from assay.records import ModelCall, Observation, Step, ToolCall, Truncation
from assay.rollout.recording.recorder import Recorder
from assay.store import assistant_message

MOST_OPEN = 256
"""Largest number of open turns; beyond it the oldest is closed without observations."""
SHOWN = 65_536
"""Characters of an observation in a step; the whole text is in a blob and in the call."""
_DECODE = msgspec.json.Decoder().decode


class _Turn(NamedTuple):
    """A reply without its observations yet."""

    started: float | None
    answer: dict[str, Any]
    tool_calls: tuple[ToolCall, ...]


class Turns:
    """The open turns of one attempt; `on_step` is called with each recorded step."""

    def __init__(self, recorder: Recorder, on_step: Callable[[Step], None] | None = None) -> None:
        self._recorder = recorder
        self._on_step = on_step
        self._open: OrderedDict[str, _Turn] = OrderedDict()

    def open_turn(self, call: ModelCall) -> None:
        """Opens a turn for a recorded call, unless its client disconnected."""
        answer = assistant_message(call)
        if call.delivered and answer is not None:
            self._open[call.id] = _Turn(call.started, answer, tool_calls_of(answer))
        if len(self._open) > MOST_OPEN:
            self._close(next(iter(self._open)), (), None)

    def close_turn(self, parent: str | None, messages: Sequence[dict[str, Any]], state: str | None) -> None:
        """Closes the turn that a new request continues, with the environment's current digest."""
        if parent is not None and parent in self._open:
            self._close(parent, self._observations(self._open[parent].tool_calls, messages), state)

    def close(self, state: str | None) -> None:
        """Closes every turn; `state` is the state after the last."""
        while self._open:
            self._close(next(iter(self._open)), (), state if len(self._open) == 1 else None)

    def _close(self, call_id: str, seen: tuple[Observation, ...], state: str | None) -> None:
        turn = self._open.pop(call_id)
        message = turn.answer
        step = Step(
            index=self._recorder.steps,
            actor="agent",
            message=content_text(message.get("content")) or None,
            reasoning=reasoning_of(message),
            tool_calls=turn.tool_calls,
            observations=seen,
            call=call_id,
            state=state,
            started=turn.started,
            ended=time.time(),
        )
        self._recorder.step(step, clean=True)
        if self._on_step is not None:
            self._on_step(step)

    def _observations(self, calls: Sequence[ToolCall], messages: Sequence[dict[str, Any]]) -> tuple[Observation, ...]:
        """Returns the tool messages that name a call; else the messages after the last answer."""
        ids = {call.id for call in calls}
        last = len(messages)
        while last and messages[last - 1].get("role") != "assistant":
            last -= 1
        new = messages[last:]
        named = [m for m in new if m.get("role") == "tool" and m.get("tool_call_id") in ids]
        return tuple(map(self._observation, named or [m for m in new if m.get("role") in {"user", "tool"}]))

    def _observation(self, message: dict[str, Any]) -> Observation:
        blobs = self._recorder.store.blobs
        text = self._recorder.redactor.text(text_of_parts(message.get("content"), blobs.put))
        identity = message.get("tool_call_id")
        cut = None
        if len(text) > SHOWN:
            whole = text.encode("utf-8", "replace")
            cut = Truncation(len(whole), blobs.put(whole))
            text = f"{text[: SHOWN // 2]}\n[cut]\n{text[-SHOWN // 2 :]}"
        return Observation(
            content=text,
            call_id=identity if isinstance(identity, str) else None,
            error=message.get("is_error") is True,
            truncated=cut,
        )


def reasoning_of(message: dict[str, Any]) -> str | None:
    """Returns the reasoning in an assistant message; None without one."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return reasoning if isinstance(reasoning, str) else None


def tool_calls_of(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    """Returns the tool calls of an assistant message, as the model wrote them."""
    given = message.get("tool_calls")
    return tuple(_tool_call(one, n) for n, one in enumerate(given)) if isinstance(given, list) else ()


def _tool_call(given: Any, position: int) -> ToolCall:
    """Parses a call; the model's output may be malformed."""
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict):
        return ToolCall(f"call_{position}", "", "", error="a tool call without a function")
    raw = function.get("arguments")
    arguments = raw if isinstance(raw, str) else ""
    parsed, error = None, None
    try:
        parsed = _DECODE(arguments or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        error = f"the arguments are no JSON: {exc}"
    if error is None and not isinstance(parsed, dict):
        parsed, error = None, "the arguments are no JSON object"
    return ToolCall(
        str(given.get("id") or f"call_{position}"), str(function.get("name") or ""), arguments, parsed, error
    )
