"""One try at one attempt, in named phases: open, act, settle, judge, close.

An infrastructure failure ends a try as `broke` and leaves no outcome; it is never a failure of the agent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay import __version__
from assay.agents.interface import Agent, PlacedAgent, attempts_task, takes_solution
from assay.errors import (
    AgentError,
    AssayError,
    BoundaryError,
    EnvironmentFailure,
    HostFailure,
    LimitReached,
    ProviderError,
    StateLimitError,
    TaskError,
    UserError,
    VerifierError,
    boundary,
)
from assay.records import AttemptEnded, AttemptStarted, EvidenceAdded, Task, Verdict, VerdictStatus
from assay.rollout.attempt.live_verdicts import judge_record
from assay.rollout.attempt.recorded_attempt import LiveAttempt, ModelAccess
from assay.rollout.attempt.site import Place
from assay.rollout.attempt.steps import combined, falls_short, of_step, step_tasks
from assay.rollout.config import RunConfig
from assay.rollout.limits.contract_guards import Held
from assay.rollout.limits.early_stop import Stopper
from assay.rollout.limits.meter import Meter
from assay.rollout.plan import PlannedAttempt
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.redaction import Redactor
from assay.store import BlobStore, RunStore
from assay.tasks import TaskStep
from assay.verdicts import worst_outcome
from assay.verify import CheckResult
from assay.verify.unjudgeable import unjudgeable_state

__all__ = ["Services", "TryResult", "run_try"]

RETRYABLE = {"environment", "provider", "store"}
UNJUDGED = {"environment", "provider", "task", "store"}
"""Boundaries whose failure leaves no state that says anything about the agent."""


class Services(NamedTuple):
    """What every attempt of a run shares."""

    config: RunConfig
    run: str
    store: RunStore
    blobs: BlobStore
    agent: Agent
    model: ModelAccess | None
    place: Callable[[PlannedAttempt], Place]
    """Makes the place of one try; cheap, opens nothing."""
    secrets: Mapping[str, str] = {}
    """Values that no record may hold, by name."""
    held: Held | None = None
    """The contracts that agents are held to; None holds them to none, not even to their tasks' own."""


class TryResult(NamedTuple):
    """How a try went."""

    outcome: VerdictStatus | None
    score: float | None
    ended: str | None
    stopped: str | None
    broke: str | None
    error: str | None
    metrics: dict[str, float]
    retry: bool = False
    """The cause lies in the infrastructure and another try may follow."""
    retry_after_s: float | None = None


class _How(msgspec.Struct):
    """How acting ended; filled as phases go by."""

    ended: str | None = None
    stopped: str | None = None
    broke: str | None = None
    error: str | None = None
    retryable: bool = True
    retry_after_s: float | None = None

    def failed(self, exc: BoundaryError) -> None:
        """Notes whose boundary failed; the first failure stands."""
        if self.broke is None:
            self.broke, self.error = exc.name, str(exc)
            if isinstance(exc, ProviderError):
                self.retryable, self.retry_after_s = exc.retryable, exc.retry_after_s


def _wall(allowed: float | None) -> LimitReached:
    limit, used = "wall_s", allowed or 0.0
    return LimitReached(limit, used, used)


async def run_try(services: Services, planned: PlannedAttempt, retry: int, *, may_retry: bool) -> TryResult:
    """Runs one try and records it whole.

    Raises:
        StoreError: The record cannot be written.
    """
    this = _Try(services, planned, retry)
    try:
        await this.open()
        await this.go_through_steps()
    except asyncio.CancelledError:
        await asyncio.shield(this.attempt.leave())
        this.cut("cancelled")
        raise
    finally:
        await asyncio.shield(this.close())
    return this.end(may_retry=may_retry)


class _Try:
    """One try under way; its methods are its phases, in order."""

    def __init__(self, services: Services, planned: PlannedAttempt, retry: int) -> None:
        self.services = services
        self.planned = planned
        self.retry = retry
        self.recorder = Recorder(services.store, planned.chain(retry), Redactor(services.secrets))
        self.meter = Meter(planned.limits)
        self.task = planned.loaded.task
        self.agent = planned.agent or services.agent
        self.attempt = LiveAttempt(self.task, planned.seed, self.recorder, self.meter, services.model)
        if planned.stop is not None:
            stopper = Stopper(planned.stop, self.recorder)
            self.meter.on_turn, self.recorder.on_step = stopper.check, stopper.watch.took
        self.place = services.place(planned)
        self.how = _How()
        self.verdicts: list[list[Verdict]] = []
        self.began = False
        self.unjudgeable: str | None = None
        """How the agent's sandbox failed, while the host worked."""
        self.executions_before = 0

    async def open(self) -> None:
        """Makes the place, then starts the chain, so that its first event names the isolation."""
        try:
            with boundary(TaskError, f"preparing {self.task.id}"):
                await self.place.open(self.attempt, self.recorder)
        except BoundaryError as exc:
            self.how.failed(exc)
        except UserError as exc:
            self.how.failed(TaskError(str(exc)))
        self.began = True
        started = self._started()
        self.recorder.add(started)
        self.recorder.flush()
        self._hold(started)

    def _hold(self, started: AttemptStarted) -> None:
        """Puts the agent under the contracts that hold."""
        held = self.services.held
        try:
            guard = None if held is None else held.guard(self.task, self.recorder)
        except UserError as exc:
            self.how.failed(TaskError(str(exc)))
            return
        if guard is not None:
            guard.begin(started)
            self.attempt.guarded(guard)

    def _started(self) -> AttemptStarted:
        model = self.services.model if self.agent.needs_model else None
        asked = "" if self.planned.verification == "default" else "+as-asked"
        return AttemptStarted(
            run=self.services.run,
            attempt=self.planned.id,
            task=self.task.id,
            task_digest=self.task.digest,
            agent=self.agent.name + asked,
            model=model.backend.name if model else None,
            seed=self.planned.seed,
            number=self.planned.number,
            retry=self.retry,
            isolation=self.place.isolation,
            config=dict(self.planned.told),
            at=time.time(),
            assay_version=__version__,
            agent_process="sandbox" if isinstance(self.agent, PlacedAgent) else "runner",
            takes_solution=takes_solution(self.agent) or self.planned.brings_solution,
            attempts_task=attempts_task(self.agent),
        )

    async def go_through_steps(self) -> None:
        """Acts, settles and judges, step by step; an ordinary task is one step."""
        parts = step_tasks(self.planned.loaded)
        for number, (step, task) in enumerate(parts):
            if self.how.broke in UNJUDGED:
                return
            last = number == len(parts) - 1
            try:
                self.attempt.task = self.place.resolved(task)
            except UserError as exc:
                self.how.failed(TaskError(str(exc)))
                return
            self.attempt.solution = self._solution(task)
            self.attempt.prior = self.planned.prior[number] if number < len(self.planned.prior) else None
            await self.enter(step)
            if self.how.broke is None:
                await self.act()
            if self.how.broke not in UNJUDGED:
                judged = await self.settle_and_judge(step, task, last=last)
                self.verdicts.append(judged)
                if step is not None and not last and self._ends_here(judged, step):
                    break
        if parts[0][0] is not None and self.how.broke not in UNJUDGED:
            self._combine(len(parts))

    def _solution(self, task: Task) -> Path | None:
        folder = self.planned.loaded.folder
        wanted = takes_solution(self.agent) and folder is not None and task.oracle is not None
        return folder / (task.oracle.folder or "solution") if wanted and folder and task.oracle else None

    def _ends_here(self, judged: Sequence[Verdict], step: TaskStep) -> bool:
        if self.how.stopped is not None or self.how.broke is not None or self.unjudgeable is not None:
            return True
        if falls_short(judged, step.min_reward):
            self.recorder.note("steps ended", {"step": step.name, "min_reward": step.min_reward})
            return True
        return False

    def _combine(self, planned: int) -> None:
        strategy = self.task.environment.parameters.get("multi_step_reward_strategy", "mean")
        verdict = combined(self.verdicts, planned, strategy)
        self.recorder.verdict(verdict)
        self.verdicts = [[verdict]]

    async def enter(self, step: TaskStep | None) -> None:
        """Brings in what the step needs."""
        try:
            with boundary(TaskError, f"setting up {self.task.id}"):
                await self.place.enter(step, self.recorder)
        except BoundaryError as exc:
            self.how.failed(exc)

    async def act(self) -> None:
        """Lets the agent act, under the limits."""
        self.executions_before = self.recorder.executions
        self.attempt.ended = None  # what the step before ended with says nothing of this one
        problem = await self._act_under_limits()
        # What its model calls met goes before what its program made of that.
        cause = await self.attempt.leave() or problem
        if self.attempt.guard is not None:
            self.attempt.guard.end()
        if isinstance(cause, LimitReached):
            self.how.stopped = cause.limit
        elif isinstance(cause, BoundaryError):
            if await self._is_agents_doing(cause):
                self.unjudgeable = str(cause)
            else:
                self.how.failed(cause)
        else:
            self.how.ended = self.attempt.ended

    async def _act_under_limits(self) -> AssayError | None:
        """What ended the act, if it was not the agent's own will."""
        allowed = self.planned.limits.wall_s
        wall, leash = asyncio.timeout(allowed), asyncio.timeout(None)
        try:
            async with wall, leash:
                self.attempt.hold(leash)
                with boundary(AgentError, f"agent {self.agent.name}"):
                    await self.agent.run(self.attempt)
        except TimeoutError:
            return _wall(allowed) if wall.expired() else None
        except LimitReached as exc:
            return exc
        except BoundaryError as exc:
            # A cancelled act may fail on its way out; the limit is the cause.
            return _wall(allowed) if wall.expired() else exc
        except AssayError as exc:
            return AgentError(str(exc))
        return None

    async def settle_and_judge(self, step: TaskStep | None, task: Task, *, last: bool) -> list[Verdict]:
        """Stops what the agent left, seals the state, judges it. Verdicts on one of several steps do not decide."""
        results: tuple[CheckResult, ...] = ()
        try:
            if self.unjudgeable is None:
                await self._settle(step, last=last)
            self.recorder.flush()
            if self.unjudgeable is not None:
                self.recorder.note("unjudgeable", {"error": self.unjudgeable[:500]})
                results = tuple(CheckResult(unjudgeable_state(c, self.unjudgeable), ()) for c in task.checks)
            else:
                with boundary(VerifierError, "judging"):
                    results = await self.place.judge(task)
        except BoundaryError as exc:
            self.how.failed(exc)
        if step is not None:
            results = tuple(of_step(step.name, result) for result in results)
        for result in results:
            for found in result.evidence:
                self.recorder.add(EvidenceAdded(found))
            self.recorder.verdict(result.verdict)
        return [r.verdict for r in results]

    async def _settle(self, step: TaskStep | None, *, last: bool) -> None:
        try:
            with boundary(EnvironmentFailure, "sealing the state"):
                await self.place.settle(self.recorder, step, last=last)
        except EnvironmentFailure as exc:
            if not await self._is_agents_doing(exc):
                raise
            self.unjudgeable = str(exc)

    async def _is_agents_doing(self, exc: BoundaryError) -> bool:
        """Returns whether a failure of the sandbox is the agent's: it acted there, and the host is seen to work."""
        if not isinstance(exc, EnvironmentFailure) or isinstance(exc, HostFailure) or not self._has_acted():
            return False
        return isinstance(exc, StateLimitError) or await self.place.is_host_working()

    def _has_acted(self) -> bool:
        return self.recorder.steps > 0 or self.recorder.executions > self.executions_before

    def cut(self, why: str) -> None:
        """Leaves the chain open, with a note: a later resume keeps it and tries again. A try that was cut before its
        chain began leaves nothing."""
        if not self.began:
            return
        self.recorder.note("interrupted", {"cause": why})
        self.recorder.flush()

    async def close(self) -> None:
        """Releases the endpoint and the place. What cannot be released is noted, and is no reason to stop the run or
        doubt a verdict."""
        try:
            with boundary(EnvironmentFailure, "closing the place"):
                await self.attempt.leave()
                await self.place.close()
        except BoundaryError as exc:
            if self.began:
                self.recorder.note("not released", {"broke": exc.name, "error": str(exc)[:500]})

    def end(self, *, may_retry: bool) -> TryResult:
        """Closes the chain and says how the try went."""
        how = self.how
        metrics = self.meter.metrics()
        retry = may_retry and how.broke in RETRYABLE and how.retryable
        if retry:
            self.recorder.note("retried", {"broke": how.broke, "error": how.error})
        kept = self.place.artifacts
        end = AttemptEnded(how.ended, how.stopped, how.broke, how.error, metrics, kept, time.time())
        if not retry:
            judge_record(self.recorder, end)
        self.recorder.add(end)
        self.recorder.flush()
        outcomes = [v for judged in self.verdicts for v in judged if v.kind == "outcome"]
        scores = [v.score for v in outcomes if v.score is not None]
        return TryResult(
            outcome=worst_outcome(v.status for v in outcomes),
            score=min(scores) if scores else None,
            ended=how.ended,
            stopped=how.stopped,
            broke=how.broke,
            error=how.error,
            metrics=metrics,
            retry=retry,
            retry_after_s=how.retry_after_s,
        )
