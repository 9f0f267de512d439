"""Branches of an attempt: further tries at its task, for agents that try several times and hand in one result.

All branches of an attempt share its record, its limits and its cost. Each acts in an environment of its own: a fresh
one, or a fork of another branch's. One branch is adopted: its final state is the attempt's, and alone is judged.

`verdict` and `progress` ask what the task's verifier knows. A result chosen by them is an upper bound on what an agent
could reach, so only an agent that declares `upper_bound = True` may ask; the record and the agent's name say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from assay.records import Observation, Step, Task, ToolCall

from .interface import Agent, Attempt, attempts_task, takes_advice, takes_solution

UPPER_BOUND = "+upper-bound"
"""Suffix of the name of an agent that picks by the task's own verifier."""


class BranchEnding(NamedTuple):
    """Why a branch is over; both None while it is open."""

    ended: str | None = None
    stopped: str | None = None
    """The world's own limit that ended it; the limits of the attempt end the whole attempt."""


class PrivilegedVerdict(NamedTuple):
    """Judgement of a branch's present state by the task's checks."""

    passed: bool
    """False also where a check is unknown or failed to run."""
    score: float


class Branch(Protocol):
    """One try."""

    number: int
    """0 is the attempt itself."""
    attempt: Attempt
    """The attempt as the agent of this branch sees it."""
    steps: Sequence[Step]
    """Steps from the start to the branch's present state, those of the branches that it was forked from included."""
    ending: BranchEnding


class Branches(Protocol):
    """The branches of an attempt. Every acting method raises `LimitReached` at a limit of the attempt; let it pass."""

    first: Branch

    async def start(self, *, seed: int, task: Task | None = None) -> Branch:
        """Opens a branch in a fresh environment.

        Args:
            seed: The branch's only source of randomness.
            task: The task as its agent reads it, for added advice; default: the attempt's. Limits stay the attempt's.

        Raises:
            EnvironmentFailure: The environment could not be opened.
        """

    async def fork(self, branch: Branch) -> Branch:
        """Opens a branch that continues in a copy of another's present state. Raises `TaskError` where the
        environment's states cannot be copied: sandboxes, and worlds served inside one."""

    async def run(self, agent: Agent, branch: Branch) -> BranchEnding:
        """Lets an agent act in a branch until it is done or the world's own limit is reached."""

    async def act(self, branch: Branch, calls: Sequence[ToolCall]) -> tuple[Observation, ...]:
        """Executes tool calls in a branch as one step; `branch.ending` tells whether the world is over."""

    async def verdict(self, branch: Branch) -> PrivilegedVerdict:
        """Judges a branch's present state by the task's checks. Raises `AgentError` unless the attempt's agent
        declares `upper_bound = True`."""

    def progress(self, branch: Branch) -> float:
        """Returns the share of the solution done, as the world knows it. Raises `AgentError` as `verdict`, and
        `TaskError` where the world does not know it."""

    def adopt(self, branch: Branch) -> None:
        """Makes a branch's state the attempt's; the last adopted one counts. Without one it is the branch that acted
        last."""

    async def close(self, branch: Branch) -> None:
        """Releases a branch's environment; it cannot act or be adopted any more. Does nothing to the adopted one."""


def is_upper_bound(agent: Agent) -> bool:
    """Returns whether an agent declares that it picks by the task's own verifier."""
    return bool(getattr(agent, "upper_bound", False))


def knows_verifier(agent: Agent) -> bool:
    """Returns whether an agent declares by any of its declarations that it may know what the verifier knows."""
    return is_upper_bound(agent) or takes_advice(agent) or takes_solution(agent) or not attempts_task(agent)


def count_tries(agent: Agent) -> int:
    """Returns the number of tries that an agent declares as `tries`, by which the task's own limits are multiplied."""
    return int(getattr(agent, "tries", 1))


def uses_branches(agent: Agent) -> bool:
    """Returns whether an agent declares `uses_branches = True` and so is given `Attempt.branches`."""
    return bool(getattr(agent, "uses_branches", False))
