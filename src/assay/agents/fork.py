"""Agent of a fork: continues in the middle of a recorded attempt.

The environment is already in the recorded state. An agent with `continue_from` is given the recorded steps; any other
sees only the environment, as if it had just started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from assay.environments.interface import Mount
from assay.records import Step

from .interface import Agent, Attempt, Needs, attempts_task, is_placed, takes_advice, takes_solution
from .teams.interface import team_of


@runtime_checkable
class ContinuesAttempt(Protocol):
    """Agent that can continue a recorded attempt."""

    async def continue_from(self, attempt: Attempt, steps: Sequence[Step]) -> None:
        """Acts until done, after the given steps of its own, which must not be repeated."""


class DelegatingAgent:
    """Agent that acts first and then delegates to another: it has the requirements of `then`, named `how+then`."""

    def __init__(self, how: str, then: Agent) -> None:
        self.name = f"{how}+{then.name}"
        self.needs_model = then.needs_model
        self.takes_solution = takes_solution(then)
        self.attempts_task = attempts_task(then)
        self.takes_advice = takes_advice(then)
        self.mounts: tuple[Mount, ...] = then.mounts if is_placed(then) else ()
        self.needs: Needs = then.needs if is_placed(then) else Needs()
        self.team = team_of(then)
        self._then = then


class ForkAgent(DelegatingAgent):
    """Continues `attempt.prior` with `then`.

    Its name is `fork+` and the other's: attempts that start at a fork are not a sample of the task's attempts.
    """

    def __init__(self, then: Agent) -> None:
        super().__init__("fork", then)

    async def run(self, attempt: Attempt) -> None:
        acts = attempt.prior.acts if attempt.prior is not None else ()
        if isinstance(self._then, ContinuesAttempt):
            await self._then.continue_from(attempt, [act for act in acts if isinstance(act, Step)])
        else:
            await self._then.run(attempt)
