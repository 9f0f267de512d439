"""Builds a trajectory of turns: Chat Completions messages with what a source knows beside them."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.messages import actor_of, chat_calls
from assay.formats.shared.round_trip_builder import MOST, text_or_none
from assay.records import ModelCall, Observation, Step, Usage


class Turn(msgspec.Struct, frozen=True):
    """A message, and its model call where it is a model's answer."""

    message: dict[str, Any]
    """In the form of Chat Completions; `error: true` marks a tool that failed."""
    model: str | None = None
    """Of an answer; an answer without model and usage has no recorded call."""
    dialect: str = "unknown"
    usage: Usage | None = None
    cost_usd: float | None = None
    started: float | None = None
    ended: float | None = None
    results: tuple[Observation, ...] = ()
    """Results that a source keeps with the call; without an id they belong to this turn's open calls, in order."""
    extra: dict[str, Any] = {}
    """Data of the source that no record has a field for."""
    error: str | None = None
    """Of the model call."""


def add_turn(builder: TrajectoryBuilder, turn: Turn) -> Step:
    """Adds a turn; a tool's result goes to the turn of its call."""
    message = turn.message
    role, text = str(message.get("role")), text_or_none(message.get("content"))
    if role == "tool":
        call_id = text_or_none(message.get("tool_call_id")) or None
        seen = builder.make_observation(text or "", call_id, error=message.get("error") is True)
        return builder.add_result(seen, started=turn.started)
    extra = dict(turn.extra) if role in ("user", "assistant") else {**turn.extra, "role": role}
    extra |= {"name": message["name"]} if isinstance(message.get("name"), str) else {}
    calls = chat_calls(message)
    step = builder.add_step(
        actor_of(role),
        text,
        reasoning=text_or_none(message.get("reasoning_content")),
        tool_calls=calls[:MOST],
        call=_add_call(builder, turn) if role == "assistant" else None,
        started=turn.started,
        ended=turn.ended,
        extra={**extra, "calls_left_out": len(calls) - MOST if len(calls) > MOST else None},
    )
    for seen in turn.results:
        short = builder.make_observation(seen.content)
        builder.add_result(msgspec.structs.replace(seen, content=short.content, truncated=short.truncated))
    return builder.steps[step.index]


def _add_call(builder: TrajectoryBuilder, turn: Turn) -> str | None:
    if turn.model is None and turn.usage is None:
        return None
    call = ModelCall(
        f"call-{len(builder.calls)}",
        turn.dialect,
        turn.model or "unknown",
        {},
        None if turn.error else {},
        usage=turn.usage or Usage(),
        cost_usd=turn.cost_usd,
        error=turn.error,
        started=turn.started,
        ended=turn.ended,
    )
    return builder.add_call(call)
