"""Tokens and cost of model calls: as sources write them, and in all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.formats.shared.round_trip_builder import count_or_none, number
from assay.records import Body, ModelCalled, StepAdded, Usage


def read_usage(words: Any, prompt: str, completion: str, cached: str = "", reasoning: str = "") -> Usage | None:
    """Reads token counts by their keys; None where there are none."""
    if not isinstance(words, dict):
        return None
    return Usage(*(count_or_none(words.get(key)) for key in (prompt, completion, cached, reasoning)))


def known_cost(value: Any) -> float | None:
    """Returns a cost; None for 0, which tools write where they know no price."""
    return number(value) or None


def total_usage(bodies: Iterable[Body]) -> dict[str, float]:
    """Returns `prompt_tokens`, `completion_tokens` and `cost_usd` of an attempt, as its metrics name them.

    A sum that lacks the figure of a call is left out: a part must not pass for the whole. So is a cost of 0, which
    tools write where they know no price, and 0 tokens of all calls in and out, which they write where nothing counted
    them. A call that failed has no figures; a simulated user's are not the agent's.
    """
    bodies = list(bodies)
    others = {body.step.call for body in bodies if isinstance(body, StepAdded) and body.step.actor == "user"}
    calls = [body.call for body in bodies if isinstance(body, ModelCalled)]
    counted = [call for call in calls if call.error is None and call.id not in others]
    found: dict[str, float | None] = {
        name: _whole_sum(getattr(call.usage, name) for call in counted)
        for name in ("prompt_tokens", "completion_tokens")
    }
    if found["prompt_tokens"] == 0 and not found["completion_tokens"]:
        found = {}
    found["cost_usd"] = _whole_sum(call.cost_usd for call in counted) or None
    return {name: value for name, value in found.items() if value is not None}


def _whole_sum(values: Iterable[float | None]) -> float | None:
    total, met = 0.0, False
    for value in values:
        if value is None:
            return None
        total, met = total + value, True
    return total if met else None
