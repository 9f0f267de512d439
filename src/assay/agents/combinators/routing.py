"""Routing by step: which of two agents makes the next step, from the steps so far.

After each step the router is asked again, and the chosen agent goes on in the state that is there: one with
`continue_from` is given the steps so far, whoever made them; any other begins anew in that state. Only what an agent in
use sees is a router's to decide by: task and steps.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from assay.agents.branches import Branch
from assay.agents.interface import Agent, Attempt, ForwardingAttempt, needs_sandbox
from assay.agents.recoveries import failure_signature
from assay.errors import AgentError, OptionError
from assay.plugins import call, load
from assay.records import Step, Task

AFTER_ERROR = "after-error"


class StepPrefix(NamedTuple):
    """All that a router may decide by."""

    task: Task
    steps: tuple[Step, ...]


Router = Callable[[StepPrefix], bool]
"""Returns True where the expensive agent is to make the next step."""


def is_after_error(prefix: StepPrefix) -> bool:
    """Returns whether a call of the last step failed."""
    last = prefix.steps[-1:]
    return any(
        failure_signature(call, seen) is not None
        for step in last
        for call, seen in zip(step.tool_calls, step.observations, strict=False)
    )


def read_router(spelled: str, agents: Sequence[Agent], kind: str) -> Router:
    """Returns the router that the option `route` names.

    Raises:
        OptionError: An agent's steps are those of a program in the sandbox.
        PluginLoadError: The file has no such function.
    """
    programs = [agent.name for agent in agents if needs_sandbox(agent)]
    if programs:
        raise OptionError(f"agent {kind}: route: {programs[0]} is a program in the sandbox: it cannot be led by step")
    route = load_route(spelled, f"agent {kind}")

    def decide(prefix: StepPrefix) -> bool:
        chosen = route(prefix)
        if not isinstance(chosen, bool):
            raise AgentError(f"router {spelled} returned {chosen!r:.100}: True for the expensive agent, else False")
        return chosen

    return decide


def load_route(spelled: str, user: str) -> Callable[[StepPrefix], object]:
    """Returns the function that a route names. Raises `OptionError`, and `PluginLoadError` for a missing function."""
    if spelled == AFTER_ERROR:
        return is_after_error
    function = load("agents", spelled) if Path(spelled.partition(":")[0]).suffix == ".py" else None
    if not callable(function):
        raise OptionError(f"{user}: route is {spelled!r}: take {AFTER_ERROR}, or path/to/file.py:function")
    return lambda prefix: call(f"router {spelled}", function, prefix)


class _StepMadeError(Exception):
    """The agent made its step; it acts no more until it is chosen again."""


class OneStepAgent:
    """Lets an agent make one step in a branch, or end the attempt."""

    needs_model = False

    def __init__(self, agent: Agent, branch: Branch) -> None:
        self.name = agent.name
        self._agent, self._steps = agent, tuple(branch.steps)
        self.has_acted = False

    async def run(self, attempt: Attempt) -> None:
        once = _OneStepAttempt(attempt, len(self._steps))
        seen = cast("Attempt", once)
        try:
            if self._steps and hasattr(self._agent, "continue_from"):
                await self._agent.continue_from(seen, self._steps)
            else:
                await self._agent.run(seen)
        except _StepMadeError:
            pass
        self.has_acted = once.has_acted


class _OneStepAttempt(ForwardingAttempt):
    """An attempt in which an agent may act once."""

    def __init__(self, attempt: Attempt, number: int) -> None:
        super().__init__(attempt)
        self.has_acted = False
        # An agent that begins anew would draw the same act again from the same seed.
        self.seed = attempt.seed if number == 0 else random.Random(f"{attempt.seed}/step-{number}").getrandbits(63)

    async def act(self, *arguments: Any, **options: Any) -> Any:
        return await self._once(self._attempt.act, *arguments, **options)

    async def shell(self, *arguments: Any, **options: Any) -> Any:
        return await self._once(self._attempt.shell, *arguments, **options)

    async def _once(self, act: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        if self.has_acted:
            raise _StepMadeError
        self.has_acted = True
        made = await act(*arguments, **options)
        if self._attempt.ended is None:
            raise _StepMadeError
        return made
