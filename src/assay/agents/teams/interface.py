"""Interface between a team's agent and the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from assay.records import Step

from .spec import TeamSpec

if TYPE_CHECKING:
    from assay.agents.interface import Agent


class TeamSeats(Protocol):
    """The actors' places in one attempt, for an agent that declares a `team`.

    Each actor gets an `Attempt` of its own with the rights of its role. The runner stamps its name on every step, model
    call and message, refuses what the role may not do, and lets one actor act at a time.
    """

    async def run(self, agents: Mapping[str, Agent], steps: Sequence[Step] = ()) -> None:
        """Lets the actors act in the team's order until all have ended, or the world has.

        Args:
            agents: The agent of each role.
            steps: Steps that the team took before, in a state of the environment that they led to: messages are
                delivered and the order is brought to where it was, without recording anything again.

        Raises:
            LimitReached: At a limit of the attempt; let it pass.
            AgentError: An actor failed.
            TaskError: The environment has a tool of a team's name, or the steps are not a team's.
        """


def team_of(agent: Agent) -> TeamSpec | None:
    """Returns the team that an agent declares as `team`, whose seats it is then given (`Attempt.team`)."""
    found = getattr(agent, "team", None)
    return found if isinstance(found, TeamSpec) else None
