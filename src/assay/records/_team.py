"""Teams: several actors that act in turn in one attempt, and what passes between them.

The runner executes the tools of a team itself; no environment sees them. Each message and each hand-off is evidence
that the runner adds, with the sender that the runner knows.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ._step import Step, ToolCall

TEAM: Final = "team"
"""Evidence kind of a team's roles, channels and permissions; the first evidence of a team's acting."""
TEAM_MESSAGE: Final = "team_message"
"""Evidence kind of a `TeamMessage`."""
HAND_OFF: Final = "hand_off"
"""Evidence kind of a `HandOff`."""
TEAM_SEND: Final = "team_send"
TEAM_READ: Final = "team_read"
TEAM_HAND_OFF: Final = "team_hand_off"
TEAM_TOOLS: Final = frozenset({TEAM_SEND, TEAM_READ, TEAM_HAND_OFF})


class TeamMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of one actor to the readers of a channel."""

    id: str
    """Unique in the attempt."""
    channel: str
    sender: str
    receivers: tuple[str, ...]
    text: str
    step: int
    """Index of the step that sent it."""


class HandOff(msgspec.Struct, frozen=True, kw_only=True):
    """The turn passes from one actor to another."""

    id: str
    """Unique in the attempt."""
    sender: str
    receiver: str
    text: str
    step: int | None = None
    """Index of the step that handed off; None where the sender ended and the turn returned by itself."""
    returns: bool = False
    """True if the receiver waited for the sender's answer."""


def world_calls(step: Step) -> tuple[ToolCall, ...]:
    """Returns the tool calls of a step that its environment was asked for: all but those of a team's own tools."""
    if step.actor_name is None:
        return step.tool_calls
    return tuple(call for call in step.tool_calls if call.name not in TEAM_TOOLS)
