"""The agent `team`: one agent made of several actors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.agents.branches import uses_branches
from assay.agents.interface import Agent, Attempt, attempts_task, needs_sandbox, takes_advice, takes_solution
from assay.errors import AgentDefinitionError, AgentError
from assay.records import Step

from .interface import team_of
from .spec import TeamSpec


class AbsentAgent:
    """Does nothing, in the place of a role that is left out."""

    name = "absent"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        attempt.finish("absent")


class TeamAgent:
    """Several actors, each with its role's rights, in one attempt.

    Args:
        team: The specification.
        agents: The agent of each role.
    """

    def __init__(self, team: TeamSpec, agents: Mapping[str, Agent]) -> None:
        missing = [role.name for role in team.roles if role.name not in agents]
        if missing:
            raise AgentDefinitionError(f"the team has no agent for the role {missing[0]!r}: give one for each role")
        self.team = team
        self.agents: dict[str, Agent] = {
            role.name: AbsentAgent() if role.name in team.absent else agents[role.name] for role in team.roles
        }
        for name, agent in self.agents.items():
            _require_actor(name, agent)
        roles = "+".join(f"{role.name}={agents[role.name].name}" for role in team.roles)
        absent = "".join(f"-{name}" for name in team.absent)
        self.name = f"team:{team.name or roles}{absent}"
        self.needs_model = any(agent.needs_model for agent in self.agents.values())
        self.attempts_task = all(map(attempts_task, self.agents.values()))
        self.takes_advice = any(map(takes_advice, self.agents.values()))

    async def run(self, attempt: Attempt) -> None:
        """Raises as `TeamSeats.run`."""
        await self.continue_from(attempt, ())

    async def continue_from(self, attempt: Attempt, steps: Sequence[Step]) -> None:
        """Goes on after recorded steps of the same team."""
        if attempt.team is None:
            raise AgentError(f"{self.name} has several actors, and this attempt seats one: use it by itself")
        await attempt.team.run(self.agents, steps)


def _require_actor(name: str, agent: Agent) -> None:
    """Raises `AgentDefinitionError` where an agent cannot be an actor of a team."""
    problem = None
    if needs_sandbox(agent):
        problem = "runs programs in the sandbox, where one actor's could act as another"
    elif takes_solution(agent):
        problem = "takes the reference solution"
    elif uses_branches(agent):
        problem = "tries several times"
    elif team_of(agent) is not None:
        problem = "is a team itself"
    if problem is not None:
        raise AgentDefinitionError(f"role {name!r}: agent {agent.name!r} {problem}: choose another agent for it")
