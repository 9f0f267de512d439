"""Each actor's part in an attempt of a team: its turns, calls, messages and use of models. Pure.

An actor is named by the runner (`Step.actor_name`, `ModelCall.actor_name`); what it says of itself is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from assay.records import HAND_OFF, TEAM, TEAM_MESSAGE, HandOff, TeamMessage, Trajectory, world_calls

from .contracts import GUARD

T = TypeVar("T", bound=msgspec.Struct)


class ActorUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One actor's part in one attempt."""

    actor: str
    turns: int
    acts: int
    """Calls of the environment's tools, refused ones excluded."""
    refused: int
    """Calls that its role or a contract did not allow."""
    sent: int
    """Messages that it sent to a channel."""
    received: int
    """Messages that were delivered to it, hand-offs excluded."""
    hand_offs: int
    """Turns that it handed to another actor."""
    calls: int
    """Model calls."""
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """None where the price of a call is unknown."""


def actor_usage(trajectory: Trajectory) -> list[ActorUsage]:
    """Returns the actors of an attempt in the order of their roles; none for an attempt without a team."""
    messages = list(read_evidence(trajectory, TEAM_MESSAGE, TeamMessage))
    hand_offs = [one for one in read_evidence(trajectory, HAND_OFF, HandOff) if one.step is not None]
    denied = [one.data for one in trajectory.evidence if one.kind == GUARD and one.data.get("decision") == "denied"]
    refused = {(data.get("step"), data.get("call")) for data in denied}
    found = []
    for name in _names(trajectory):
        steps = [step for step in trajectory.steps if step.actor_name == name]
        calls = [call for call in trajectory.calls if call.actor_name == name]
        costs = [call.cost_usd for call in calls]
        mine = sum((step.index, at) in refused for step in steps for at in range(len(step.tool_calls)))
        made = sum(
            call in world_calls(step) and (step.index, at) not in refused
            for step in steps
            for at, call in enumerate(step.tool_calls)
        )
        found.append(
            ActorUsage(
                actor=name,
                turns=len(steps),
                acts=made,
                refused=mine,
                sent=sum(one.sender == name for one in messages),
                received=sum(name in one.receivers for one in messages),
                hand_offs=sum(one.sender == name for one in hand_offs),
                calls=len(calls),
                prompt_tokens=sum(call.usage.prompt_tokens or 0 for call in calls),
                completion_tokens=sum(call.usage.completion_tokens or 0 for call in calls),
                cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            )
        )
    return found


def _names(trajectory: Trajectory) -> list[str]:
    """Returns the roles of the recorded team; of an attempt that was cut before it was recorded, its actors."""
    for item in trajectory.evidence:
        team = item.data.get("team") if item.kind == TEAM else None
        roles = team.get("roles") if isinstance(team, dict) else None
        if isinstance(roles, list):
            return [str(role["name"]) for role in roles if isinstance(role, dict) and "name" in role]
    return list(dict.fromkeys(step.actor_name for step in trajectory.steps if step.actor_name is not None))


def read_evidence(trajectory: Trajectory, kind: str, of: type[T]) -> Iterator[T]:
    """Yields an attempt's evidence of one kind, as `of`; what is of another form is left out."""
    for item in trajectory.evidence:
        if item.kind == kind:
            try:
                yield msgspec.convert(item.data, of)
            except msgspec.ValidationError:  # an imported record may hold any evidence
                continue
