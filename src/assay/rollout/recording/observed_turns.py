"""Steps of an agent that is only seen through its model calls: what it was told to do, what it brought back, and the
state of its environment between.

A reply is a turn; what it led to is in the next request of the same conversation. So a turn stays open until that
request comes, or the attempt ends, and steps are recorded in the order in which they end.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.gateway.call_tree import content_text
from assay.records import ModelCall, Observation, Step, ToolCall, Truncation
from assay.rollout.recording.recorder import Recorder
from assay.store import assistant_message

__all__ = ["Turns", "tool_calls_of"]

MOST_OPEN = 256
"""Turns that wait for what they led to; beyond it the oldest is closed without."""
SHOWN = 65_536
"""Characters of an observation in a step; the whole is in a blob, and in the call."""
_DECODE = msgspec.json.Decoder().decode


class _Turn(NamedTuple):
    """A reply that waits for what it led to."""

    started: float | None
    answer: dict[str, Any]
    tool_calls: tuple[ToolCall, ...]


class Turns:
    """The open turns of one attempt; `on_step` is told of each step when it is recorded."""

    def __init__(self, recorder: Recorder, on_step: Callable[[Step], None] | None = None) -> None:
        self._recorder = recorder
        self._on_step = on_step
        self._open: OrderedDict[str, _Turn] = OrderedDict()

    def answered(self, call: ModelCall) -> None:
        """Opens a turn; `call` is as it was recorded. One whose client was gone is none."""
        answer = assistant_message(call)
        if call.delivered and answer is not None:
            self._open[call.id] = _Turn(call.started, answer, tool_calls_of(answer))
        if len(self._open) > MOST_OPEN:
            self._close(next(iter(self._open)), (), None)

    def asked(self, parent: str | None, messages: Sequence[dict[str, Any]], state: str | None) -> None:
        """Closes the turn that a new request goes on from.

        Args:
            parent: The call that it goes on from.
            messages: The request's, as the client sent them.
            state: The environment's digest now.
        """
        if parent is not None and parent in self._open:
            self._close(parent, self._observations(self._open[parent].tool_calls, messages), state)

    def close(self, state: str | None) -> None:
        """Closes every turn; of the last of them `state` is what it left."""
        while self._open:
            self._close(next(iter(self._open)), (), state if len(self._open) == 1 else None)

    def _close(self, call_id: str, seen: tuple[Observation, ...], state: str | None) -> None:
        turn = self._open.pop(call_id)
        message = turn.answer
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        step = Step(
            index=self._recorder.steps,
            actor="agent",
            message=content_text(message.get("content")) or None,
            reasoning=reasoning if isinstance(reasoning, str) else None,
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
        """What came back: the tools' messages that name a call, else what follows the last answer."""
        ids = {call.id for call in calls}
        last = len(messages)
        while last and messages[last - 1].get("role") != "assistant":
            last -= 1
        new = messages[last:]
        named = [m for m in new if m.get("role") == "tool" and m.get("tool_call_id") in ids]
        return tuple(map(self._observation, named or [m for m in new if m.get("role") in {"user", "tool"}]))

    def _observation(self, message: dict[str, Any]) -> Observation:
        text = self._recorder.redactor.text(content_text(message.get("content")))
        identity = message.get("tool_call_id")
        cut = None
        if len(text) > SHOWN:
            whole = text.encode("utf-8", "replace")
            cut = Truncation(len(whole), self._recorder.store.blobs.put(whole))
            text = f"{text[: SHOWN // 2]}\n[cut]\n{text[-SHOWN // 2 :]}"
        return Observation(
            content=text,
            call_id=identity if isinstance(identity, str) else None,
            error=message.get("is_error") is True,
            truncated=cut,
        )


def tool_calls_of(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant message, as the model wrote them."""
    given = message.get("tool_calls")
    return tuple(_tool_call(one, n) for n, one in enumerate(given)) if isinstance(given, list) else ()


def _tool_call(given: Any, position: int) -> ToolCall:
    """A call as the model wrote it; what it wrote may be anything."""
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
