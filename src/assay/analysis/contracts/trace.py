"""Converts a trajectory to a trace: one position per tool call, or per turn without one. Denied calls are excluded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from assay.analysis.actions import actions_of_step
from assay.analysis.actors import named_calls, who
from assay.analysis.interface import Action
from assay.records import AttemptStarted, Evidence, Observation, Step, ToolCall, Trajectory, pair_observations

from .evaluation import Trace
from .fields import NOTHING, PENDING

GUARD: Final = "guard"
"""Evidence kind of a guard's decisions."""
MOST_JSON: Final = 262_144
"""Maximum characters of a result parsed as JSON."""
_DECODE: Final = msgspec.json.Decoder().decode


class RecordedTrace(NamedTuple):
    """A trace, with the record's position of each of its positions."""

    trace: Trace
    steps: tuple[int, ...]
    """`Step.index` of each position."""
    calls: tuple[int, ...]
    """Position among the step's tool calls; -1 for none."""


class Tracer:
    """Builds positions step by step, without look-ahead. `named` are the agents of model calls."""

    def __init__(self, started: AttemptStarted | None, named: Mapping[str, str] | None = None) -> None:
        self._run = _run_fields(started)
        self._named = named
        self._state: str | None = None
        self._first: float | None = None

    def positions(self, step: Step, *, made: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields positions among the step's tool calls (-1 for a turn without one), and the fields.

        Results after the first `made` calls are unknown; None means that the step is over.
        """
        turn = self._turn(step, pending=made is not None)
        actions = {action.call: action for action in actions_of_step(step)}
        if not step.tool_calls:
            seen = _result(step.observations[0]) if step.observations else {"result": NOTHING}
            yield -1, {**turn, "call": NOTHING, **_act(actions.get(-1)), **seen}
            return
        paired = pair_observations(step.tool_calls, step.observations)
        for number, call in enumerate(step.tool_calls):
            is_pending = made is not None and number >= made
            result = {"result": PENDING} if is_pending else _result(next(iter(paired[number]), None))
            yield number, {**turn, "call": _call(call), **_act(actions.get(number)), **result}

    def _turn(self, step: Step, *, pending: bool) -> dict[str, Any]:
        if self._first is None and not step.extra.get("beside"):
            self._first = step.started
        # An act beside the steps, before the first of them, is at its time.
        first = step.started if self._first is None else self._first
        seconds = None if step.started is None or first is None else step.started - first
        state: Any = PENDING
        if not pending:
            known = step.state is not None and self._state is not None
            state = {"digest": step.state, "changed": step.state != self._state if known else None}
            self._state = step.state or self._state
        return {
            "actor": step.actor,
            "who": who(step, self._named),
            "message": NOTHING if step.message is None else step.message,
            "reasoning": step.reasoning,
            "step": step.index,
            "seconds": seconds,
            "state": state,
            "run": self._run,
            "final": PENDING,
        }


def record_of(trajectory: Trajectory, texts: Callable[[str], str | None]) -> RecordedTrace:
    """Returns the trace of a whole trajectory; unfinished if the trajectory is."""
    tracer, denied = Tracer(trajectory.started, named_calls(trajectory)), denied_calls(trajectory.evidence)
    final = _final(trajectory, texts) if trajectory.finished is not None else PENDING
    found = [
        (step.index, number, {**fields, "final": final})
        for step in trajectory.steps
        for number, fields in tracer.positions(step)
        if (step.index, number) not in denied
    ]
    trace = Trace([fields for _, _, fields in found], ended=trajectory.finished is not None)
    return RecordedTrace(trace, tuple(step for step, _, _ in found), tuple(number for _, number, _ in found))


def denied_calls(evidence: Iterable[Evidence]) -> set[tuple[int, int]]:
    """Returns the calls that a contract kept from being made, as step and position in the step."""
    denied = [e.data for e in evidence if e.kind == GUARD and e.data.get("decision") in ("denied", "not made")]
    return {(data["step"], data["call"]) for data in denied if type(data.get("step")) is type(data.get("call")) is int}


def _run_fields(started: AttemptStarted | None) -> dict[str, Any]:
    if started is None:
        return {}
    return {"task": started.task, "agent": started.agent, "model": started.model, "attempt": started.number}


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "name": call.name,
        "id": call.id,
        "arguments": call.parsed if call.parsed is not None else {},
        "raw": call.arguments,
        "malformed": call.error is not None or call.parsed is None,
    }


def _act(action: Action | None) -> dict[str, Any]:
    if action is None:
        return {"act": NOTHING}
    command: Any = action.command if action.kind == "shell" or action.command is not None else NOTHING
    return {"act": {"kind": action.kind, "command": command, "paths": list(action.paths), "text": action.text}}


def _result(seen: Observation | None) -> dict[str, Any]:
    if seen is None:
        return {}
    return {
        "result": {
            "content": seen.content,
            "stderr": seen.stderr,
            "exit_code": seen.exit_code,
            "error": seen.error,
            "ok": not seen.error and not seen.timed_out and seen.exit_code in (None, 0),
            "timed_out": seen.timed_out,
            "data": _data(seen.content),
        }
    }


def _data(content: str) -> Any:
    if content[:1] not in "[{" or not content or len(content) > MOST_JSON:
        return None
    try:
        return _DECODE(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _final(trajectory: Trajectory, texts: Callable[[str], str | None]) -> dict[str, Any]:
    ended = trajectory.finished
    facts = [e.data.get("facts") for e in trajectory.evidence if e.kind == "facts"]
    return {
        "ended": ended.ended if ended else None,
        "stopped": ended.stopped if ended else None,
        "broke": ended.broke if ended else None,
        "facts": facts[-1] if facts else None,
        "changed": _changed(trajectory.evidence, texts),
        "outcome": trajectory.outcome,
    }


def _changed(evidence: Iterable[Evidence], texts: Callable[[str], str | None]) -> list[str] | None:
    """Returns the paths in the manifest of the last sealed state."""
    manifests = [e.data["manifest"] for e in evidence if e.kind == "snapshot" and e.data.get("manifest")]
    text = texts(str(manifests[-1])) if manifests else None
    if text is None:
        return None
    try:
        listed = _DECODE(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if not isinstance(listed, list):
        return None
    return [str(item["path"]) for item in listed if isinstance(item, dict) and "path" in item]
