"""Agent of a fork: continues in the middle of a recorded attempt.

The environment is already in the recorded state. An agent with `continue_from` is given the recorded steps; any other
sees only the environment, as if it had just started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from assay.records import Step

from ._delegating import DelegatingAgent
from .interface import Agent, Attempt

__all__ = ["ContinuesAttempt", "ForkAgent"]


@runtime_checkable
class ContinuesAttempt(Protocol):
    """An agent that can take over in the middle."""

    async def continue_from(self, attempt: Attempt, steps: Sequence[Step]) -> None:
        """Acts until done, as if it had taken these steps itself. They are not to be done again."""
        ...


class ForkAgent(DelegatingAgent):
    """Lets `then` go on from where `attempt.prior` led to.

    Its name is `fork+` and the other's: attempts that begin where outcomes differ are no sample of the task's.
    """

    def __init__(self, then: Agent) -> None:
        super().__init__("fork", then)

    async def run(self, attempt: Attempt) -> None:
        acts = attempt.prior.acts if attempt.prior is not None else ()
        if isinstance(self._then, ContinuesAttempt):
            await self._then.continue_from(attempt, [act for act in acts if isinstance(act, Step)])
        else:
            await self._then.run(attempt)
