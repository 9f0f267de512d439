"""Agent that follows a text world's advice: demonstrations of adjustable quality.

With `noise`, a share of its acts is random among the possible ones, which covers more states and leaves room for
improvement over the teacher. The record marks the random acts.
"""

from __future__ import annotations

import random
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec

from assay.errors import TaskError
from assay.records import Evidence, ToolCall

from ._options import read_options
from .interface import Attempt


@runtime_checkable
class DrawsActs(Protocol):
    """World that draws possible acts."""

    def any_act(self, draw: random.Random) -> ToolCall | None:
        """Returns a random possible call; None without one."""


@runtime_checkable
class AdvisesActs(DrawsActs, Protocol):
    """World with advice."""

    def advice(self) -> ToolCall | None:
        """Returns the first call of a shortest solution; None without one."""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    noise: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Share of random acts."""
    steps: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Maximum number of acts; the limits of world and run also apply."""


class ExpertAgent:
    """Acts as the world advises. Options: `noise` (share of random acts), `steps` (most acts)."""

    name = "expert"
    needs_model = False
    takes_advice = True

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment gives no advice."""
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
    """Returns the attempt's world. Raises `TaskError` if the agent cannot act in it."""
    if not isinstance(attempt.tools, AdvisesActs):
        raise _other_environment(attempt, agent)
    return attempt.tools


def require_drawer(attempt: Attempt, agent: str) -> DrawsActs:
    """Returns the attempt's world. Raises as `require_advisor`."""
    if not isinstance(attempt.tools, DrawsActs):
        raise _other_environment(attempt, agent)
    return attempt.tools


def _other_environment(attempt: Attempt, agent: str) -> TaskError:
    return TaskError(
        f"agent {agent!r} acts in text worlds alone, and task {attempt.task.id!r} is in an environment "
        f"{attempt.task.environment.kind!r}: take tasks of a family of worlds (`assay plugins` lists them)"
    )
