"""Base of agents that act first and then delegate to another agent."""

from __future__ import annotations

from assay.environments.interface import Mount

from .interface import Agent, Needs, PlacedAgent, attempts_task, takes_solution


class DelegatingAgent:
    """Agent with the requirements of `then`, named `how+then`."""

    def __init__(self, how: str, then: Agent) -> None:
        self.name = f"{how}+{then.name}"
        self.needs_model = then.needs_model
        self.takes_solution = takes_solution(then)
        self.attempts_task = attempts_task(then)
        self.mounts: tuple[Mount, ...] = then.mounts if isinstance(then, PlacedAgent) else ()
        self.needs: Needs = then.needs if isinstance(then, PlacedAgent) else Needs()
        self._then = then
