"""The agent of a fork: another one, which goes on in the middle of what a recorded attempt began.

The place is in the recorded state already. An agent that has `go_on` is told what led there; any other sees the place
alone, as if it had just come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from assay.records import Step

from ._before import Before
from .interface import Agent, Attempt

__all__ = ["ForkAgent", "GoesOn"]


@runtime_checkable
class GoesOn(Protocol):
    """An agent that can take over in the middle."""

    async def go_on(self, attempt: Attempt, steps: Sequence[Step]) -> None:
        """Acts until done, as if it had taken these steps itself. They are not to be done again."""
        ...


class ForkAgent(Before):
    """Lets `then` go on from where `attempt.prior` led to.

    Its name is `fork+` and the other's: attempts that begin where outcomes differ are no sample of the task's.
    """

    def __init__(self, then: Agent) -> None:
        super().__init__("fork", then)

    async def run(self, attempt: Attempt) -> None:
        acts = attempt.prior.acts if attempt.prior is not None else ()
        if isinstance(self._then, GoesOn):
            await self._then.go_on(attempt, [act for act in acts if isinstance(act, Step)])
        else:
            await self._then.run(attempt)
