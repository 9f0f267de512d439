"""The agent that asks a text world for the next best act: demonstrations to learn from, as good or bad as is wanted.

With `noise` a share of its acts is random among those that are possible, so that what learns from it sees more of the
world than shortest ways, and has room to become better than its teacher. Which acts were random is in the record.
"""

from __future__ import annotations

import random
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec

from assay.errors import TaskError
from assay.records import Evidence, ToolCall

from ._options import read_options
from .interface import Attempt

__all__ = ["AdvisesActs", "ExpertAgent"]


@runtime_checkable
class AdvisesActs(Protocol):
    """A world that knows what to do next."""

    def advice(self) -> ToolCall | None:
        """The call that begins a shortest way from here; None where there is none."""
        ...

    def any_act(self, draw: random.Random) -> ToolCall | None:
        """A random call that is possible from here; None where there is none."""
        ...


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    noise: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Share of acts that are random."""
    steps: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Acts at most; the world and the run have limits of their own."""


class ExpertAgent:
    """Acts as the world advises. Options: `noise` (share of random acts), `steps` (most acts)."""

    name = "expert"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """See `Agent.run`. Raises `TaskError` where the environment gives no advice."""
        world = require_advisor(attempt, self.name)
        draw, options, erred = random.Random(attempt.seed), self._options, list[int]()
        try:
            for step in range(options.steps):
                random_one = draw.random() < options.noise
                call = world.any_act(draw) if random_one else world.advice()
                if call is None:
                    break
                if random_one:
                    erred.append(step)
                await attempt.act([call])
                if attempt.ended is not None:
                    break
        finally:
            if options.noise:
                data = {"noise": options.noise, "random_steps": erred}
                attempt.note(Evidence("noise", "audit", "expert_noise", data))
        if attempt.ended is None:
            attempt.finish("nothing is left to do")


def require_advisor(attempt: Attempt, agent: str) -> AdvisesActs:
    """The attempt's world. Raises `TaskError` where it is none that this agent can act in."""
    if not isinstance(attempt.tools, AdvisesActs):
        raise TaskError(
            f"agent {agent!r} acts in text worlds alone, and task {attempt.task.id!r} is in an environment "
            f"{attempt.task.environment.kind!r}: take tasks of a family of worlds (`assay plugins` lists them)"
        )
    return attempt.tools
