"""Branches of one trial: further sites beside the first, all of them recorded in the trial's chain.

Each branch is an ordinary site with a `LiveAttempt` of its own; recorder, meter and model are the trial's. When acting
ends, the adopted branch's site and attempt take the place of the trial's, so that settling and judging know nothing of
branches. The others are closed unjudged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from assay.agents.branches import Branch, BranchEnding, Branches, PrivilegedVerdict
from assay.agents.interface import Agent
from assay.analysis.judged_path import ADOPTED
from assay.errors import AgentError, BoundaryError, EnvironmentFailure, LimitReached, TaskError, VerifierError, boundary
from assay.records import Observation, Step, Task, ToolCall
from assay.rollout.attempt.agent_call import call_agent
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.attempt.site import AttemptSite
from assay.rollout.limits.contract_guards import ContractGuard
from assay.rollout.recording.recorder import BranchPath, Recorder, branch_data
from assay.verdicts import worst_outcome


class BranchParts(NamedTuple):
    """Parts of a trial that its branches share."""

    agent: Agent
    is_upper_bound: bool
    """The agent's declaration when the record began, which names the agent by it; a later one is too late."""
    recorder: Recorder
    make_site: Callable[[], AttemptSite]
    make_attempt: Callable[[int], LiveAttempt]
    """Returns the view of a branch by its seed."""
    make_guard: Callable[[], ContractGuard | None]
    """Returns the guard of a branch, begun; None without contracts."""


class LiveBranch(Branch):
    """One branch."""

    def __init__(self, number: int, attempt: LiveAttempt, site: AttemptSite, path: BranchPath) -> None:
        self.number = number
        self.attempt: LiveAttempt = attempt
        self.site = site
        self.path = attempt.path = path
        self.ending = BranchEnding()
        self.is_closed = False

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        return self.path.steps


class LiveBranches(Branches):
    """Implements `Branches` for one trial."""

    def __init__(self, parts: BranchParts, attempt: LiveAttempt, site: AttemptSite) -> None:
        self._parts = parts
        self.first = LiveBranch(0, attempt, site, BranchPath(0))
        self._open = [self.first]
        self._count = 1
        self._last_acting = self.first
        self._adopted: LiveBranch | None = None
        self._asked = 0
        """Times that a branch was judged by the task's own checks, or its progress was read."""

    async def start(self, *, seed: int, task: Task | None = None) -> LiveBranch:
        branch = self._add(self._parts.make_site(), BranchPath(self._count), seed)
        await self._open_site(branch)
        if task is not None:
            branch.attempt.task = task
        await branch.site.enter(None, self._parts.recorder)
        return branch

    async def fork(self, branch: Branch) -> LiveBranch:
        origin = self._own(branch)
        path = BranchPath(self._count, origin.path.steps)
        forked = self._add(await origin.site.fork(), path, origin.attempt.seed)
        await self._open_site(forked)
        forked.ending = origin.ending
        return forked

    def _add(self, site: AttemptSite, path: BranchPath, seed: int) -> LiveBranch:
        first = self.first.attempt
        attempt = self._parts.make_attempt(seed)
        attempt.task, attempt.solution = first.task, first.solution
        branch = LiveBranch(self._count, attempt, site, path)
        self._count += 1
        self._open.append(branch)
        return branch

    async def _open_site(self, branch: LiveBranch) -> None:
        """Opens a branch's environment, under the contracts as they stand after the branch's steps."""
        await branch.site.open(branch.attempt, self._parts.recorder)
        guard = self._parts.make_guard()
        if guard is not None:
            for step in branch.path.steps:
                guard.record_step(step)
            branch.attempt.attach_guard(guard)

    def _own(self, branch: Branch) -> LiveBranch:
        if not isinstance(branch, LiveBranch) or branch not in self._open:
            raise AgentError("the branch is closed, or of another attempt: keep it open until it is adopted")
        return branch

    def _follow(self, branch: Branch) -> LiveBranch:
        own = self._last_acting = self._own(branch)
        self._parts.recorder.follow(own.path)
        return own

    async def run(self, agent: Agent, branch: Branch) -> BranchEnding:
        own = self._follow(branch)
        attempt = own.attempt
        attempt.ended = None
        cause: BaseException | None = None
        act_timeout = asyncio.timeout(attempt.limits.wall_s)
        try:
            async with act_timeout:
                attempt.set_act_timeout(act_timeout)
                with boundary(AgentError, f"agent {agent.name}"):
                    await call_agent(agent, attempt)
        except (LimitReached, BoundaryError) as exc:
            cause = exc
        except TimeoutError:
            if not act_timeout.expired():
                raise
        # What its model calls met goes before what its program made of that.
        cause = await attempt.close_endpoint() or cause
        if isinstance(cause, LimitReached) and (attempt.is_try_over or not attempt.meter.is_spent()):
            own.ending = BranchEnding(stopped=cause.limit)
        elif cause is not None:
            raise cause
        elif act_timeout.expired():
            own.ending = BranchEnding(stopped="wall_s")
        else:
            own.ending = BranchEnding(ended=attempt.ended)
        return own.ending

    async def act(self, branch: Branch, calls: Sequence[ToolCall]) -> tuple[Observation, ...]:
        own = self._follow(branch)
        try:
            observations = await own.attempt.act(calls)
        except LimitReached as exc:
            if not own.attempt.is_try_over:
                raise
            own.ending = BranchEnding(stopped=exc.limit)
            return own.path.steps[-1].observations
        own.ending = BranchEnding(ended=own.attempt.ended)
        return observations

    async def verdict(self, branch: Branch) -> PrivilegedVerdict:
        own = self._privileged(branch)
        with boundary(VerifierError, "judging a branch"):
            verdicts = [one.verdict for one in await own.site.preview(own.attempt.task)]
        outcomes = [one for one in verdicts if one.kind == "outcome"]
        scores = [one.score for one in outcomes if one.score is not None]
        passed = worst_outcome(one.status for one in outcomes) == "pass"
        return PrivilegedVerdict(passed, min(scores) if scores else float(passed))

    def progress(self, branch: Branch) -> float:
        read = getattr(self._privileged(branch).attempt.tools, "progress", None)
        value = read() if callable(read) else None
        if not isinstance(value, int | float):
            raise TaskError("the world does not know how much of its solution is done: take another value")
        return float(value)

    def _privileged(self, branch: Branch) -> LiveBranch:
        if not self._parts.is_upper_bound:
            raise AgentError(
                f"agent {self._parts.agent.name}: picking by the task's own verifier gives an upper bound on what an "
                "agent can reach: declare upper_bound = True before the attempt begins"
            )
        self._asked += 1
        return self._own(branch)

    def adopt(self, branch: Branch) -> None:
        self._adopted = self._own(branch)

    async def close(self, branch: Branch) -> None:
        own = self._own(branch)
        if own is not self._adopted:
            self._open.remove(own)
            await self._close(own)

    async def _close(self, branch: LiveBranch) -> None:
        if branch.is_closed:
            return
        branch.is_closed = True
        if branch.attempt.guard is not None:
            branch.attempt.guard.end()
        with boundary(EnvironmentFailure, "closing a branch"):
            await branch.attempt.close_endpoint()
            await branch.site.close()

    async def finish(self) -> LiveBranch:
        """Ends acting: records and returns the adopted branch, and closes the others."""
        chosen = self._adopted or self._last_acting
        if chosen not in self._open:
            chosen = self._open[-1] if self._open else self.first
        data = branch_data(chosen.path, self._parts.recorder.steps)
        data |= {"branches": self._count, "upper_bound": self._asked > 0, "privileged_reads": self._asked}
        self._parts.recorder.evidence("audit", ADOPTED, data)
        others, self._open = [one for one in self._open if one is not chosen], [chosen]
        for other in others:
            try:
                await self._close(other)
            except BoundaryError as exc:
                self._parts.recorder.note("not released", {"broke": exc.name, "error": str(exc)[:500]})
        return chosen

    async def close_all(self) -> None:
        """Closes every branch that is open, after an interruption. Idempotent."""
        while self._open:
            await self._close(self._open.pop())
