"""One trial of an attempt, in named phases: open, act, settle, judge, close.

An infrastructure failure ends a trial as `broke` without an outcome; it never counts as the agent's failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

from assay import __version__
from assay.agents.branches import UPPER_BOUND, count_tries, is_upper_bound, knows_verifier, uses_branches
from assay.agents.interface import Agent, attempts_task, is_placed, takes_solution
from assay.agents.teams.interface import team_of
from assay.environments.solution import find_solution_folder
from assay.errors import (
    AgentError,
    AssayError,
    BoundaryError,
    BudgetExceededError,
    EnvironmentFailure,
    HostFailure,
    LimitReached,
    StateLimitError,
    TaskError,
    UserError,
    VerifierError,
    boundary,
)
from assay.records import AttemptEnded, AttemptStarted, EvidenceAdded, Task, Verdict, VerdictStatus
from assay.rollout.attempt.acting_end import ActingEnd
from assay.rollout.attempt.agent_call import call_agent
from assay.rollout.attempt.branches import BranchParts, LiveBranches
from assay.rollout.attempt.recorded_attempt import LiveAttempt, ModelAccess
from assay.rollout.attempt.request_control import attribute_model_failure
from assay.rollout.attempt.site import NO_CHECKS, AttemptSite
from assay.rollout.attempt.steps import as_step_result, combine_steps, is_below_minimum, step_tasks
from assay.rollout.attempt.team import LiveTeam
from assay.rollout.audit.live import LiveRecord, judge_record
from assay.rollout.config import RunConfig
from assay.rollout.limits.contract_guards import ActiveContracts, ContractGuard
from assay.rollout.limits.early_stop import EarlyStopper
from assay.rollout.limits.meter import Meter
from assay.rollout.limits.run_budget import RunBudget
from assay.rollout.limits.run_controls import RunControls
from assay.rollout.plan import PlannedAttempt, plan_tries
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.redaction import Redactor
from assay.rollout.telemetry.observer import SILENT, RunObserver, TrialEnding, TrialInfo, TrialObserver
from assay.store import BlobStore, RunStore
from assay.tasks import TaskStep
from assay.verdicts import worst_outcome
from assay.verify import CheckResult, RunChecks
from assay.verify.unjudgeable import unjudgeable_state

RETRYABLE = {"environment", "provider", "store", "user"}
UNJUDGED = {"environment", "provider", "task", "store", "user"}
"""Boundaries whose failure leaves no state that reflects the agent."""


class Services(NamedTuple):
    """Services shared by all attempts of a run."""

    config: RunConfig
    run: str
    store: RunStore
    blobs: BlobStore
    agent: Agent
    model: ModelAccess | None
    make_site: Callable[[PlannedAttempt], AttemptSite]
    """Creates the site of one trial; cheap, opens nothing."""
    secrets: Mapping[str, str] = {}
    """Values to redact from all records, by name."""
    contracts: ActiveContracts | None = None
    """The active contracts; None applies none, not even those of the tasks."""
    budget: RunBudget | None = None
    """Budget of the whole run; None is unlimited."""
    checks: RunChecks = NO_CHECKS
    """Checks beside those of the tasks."""
    controls: RunControls | None = None
    """Control from outside; None without any."""
    observer: RunObserver | None = None
    """Metrics and traces; None: nothing is observed."""


class TrialResult(NamedTuple):
    """The result of a trial."""

    outcome: VerdictStatus | None
    score: float | None
    ended: str | None
    stopped: str | None
    broke: str | None
    error: str | None
    metrics: dict[str, float]
    retry: bool = False
    """True if an infrastructure failure allows another trial."""
    retry_after_s: float | None = None


async def run_trial(services: Services, planned: PlannedAttempt, retry: int, *, may_retry: bool) -> TrialResult:
    """Runs and records one trial. Raises `StoreError` if the record cannot be written."""
    trial = Trial(services, planned, retry)
    try:
        return await _run_phases(trial, may_retry=may_retry)
    finally:
        trial.observer.on_end(trial.summary)


async def _run_phases(trial: Trial, *, may_retry: bool) -> TrialResult:
    try:
        with trial.observer.phase("open"):
            await trial.open()
        await trial.run_steps()
    except asyncio.CancelledError:
        await asyncio.shield(trial.attempt.close_endpoint())
        trial.mark_interrupted(trial.cancellation_cause())
        raise
    except BudgetExceededError:
        trial.mark_interrupted("budget")
        raise
    finally:
        await asyncio.shield(trial.close())
    try:
        return await trial.end(may_retry=may_retry)
    except asyncio.CancelledError:
        trial.mark_interrupted(trial.cancellation_cause())
        raise


class Trial:
    """One trial under way; its methods are its phases, in order."""

    def __init__(self, services: Services, planned: PlannedAttempt, retry: int) -> None:
        self.services = services
        self.agent = planned.agent or services.agent
        self.planned = planned = plan_tries(planned, count_tries(self.agent), services.config.limits)
        self.retry = retry
        self.recorder = Recorder(services.store, planned.chain(retry), Redactor(services.secrets))
        self.observer = self.recorder.observer = self._begin_observer()
        self.summary: TrialEnding | None = None
        """Set once the chain is closed."""
        self.record = LiveRecord(self.recorder.chain)
        services.store.watch(self.recorder.chain, self.record.add_committed)
        self.meter = Meter(planned.limits, services.budget)
        self.task = planned.loaded.task
        self.attempt = self._make_attempt(planned.seed)
        if planned.stop is not None:
            stopper = EarlyStopper(planned.stop, self.recorder)
            self.meter.on_turn, self.recorder.on_step = stopper.check, stopper.watch.add_step
        self.site = services.make_site(planned)
        self.is_upper_bound = is_upper_bound(self.agent)
        self.team = team_of(self.agent)
        self.branches: LiveBranches | None = None
        """For an agent that tries several times."""
        self.ending = ActingEnd()
        self.verdicts: list[list[Verdict]] = []
        self.chain_started = self.chain_ended = False
        self.unjudgeable: str | None = None
        """The error of the agent's sandbox, if it failed while the host worked."""
        self.executions_before = 0

    def _begin_observer(self) -> TrialObserver:
        services, planned = self.services, self.planned
        if services.observer is None:
            return SILENT
        model = None if services.model is None else services.model.backend.name
        agent, task = (planned.agent or services.agent).name, planned.loaded.task.id
        return services.observer.begin_trial(
            TrialInfo(
                services.run,
                planned.id,
                self.recorder.chain,
                task,
                agent,
                model,
                planned.seed,
                planned.number,
                self.retry,
            )
        )

    async def open(self) -> None:
        """Opens the site, then starts the chain, so that the first event names the isolation."""
        try:
            with boundary(TaskError, f"preparing {self.task.id}"):
                await self.site.open(self.attempt, self.recorder)
        except BoundaryError as exc:
            self.ending.record_failure(exc)
        except UserError as exc:
            self.ending.record_failure(TaskError(str(exc)))
        self.chain_started = True
        started = self._start_event()
        self.recorder.add(started)
        await self.recorder.checkpoint()
        try:
            guard = self._begin_guard(started)
        except UserError as exc:
            self.ending.record_failure(TaskError(str(exc)))
            return
        if guard is not None:
            self.attempt.attach_guard(guard)
        if uses_branches(self.agent):
            self.branches = LiveBranches(
                BranchParts(
                    self.agent,
                    self.is_upper_bound,
                    self.recorder,
                    partial(self.services.make_site, self.planned),
                    self._make_attempt,
                    partial(self._begin_guard, started),
                ),
                self.attempt,
                self.site,
            )

    def _make_attempt(self, seed: int) -> LiveAttempt:
        attempt = LiveAttempt(self.task, seed, self.recorder, self.meter, self.services.model)
        attempt.knows_verifier = knows_verifier(self.agent)
        return attempt

    def _begin_guard(self, started: AttemptStarted) -> ContractGuard | None:
        """Returns a guard by the active contracts; None without any. Raises `UserError` for an invalid contract."""
        contracts = self.services.contracts
        guard = None if contracts is None else contracts.guard(self.task, self.recorder)
        if guard is not None:
            guard.begin(started)
        return guard

    def _start_event(self) -> AttemptStarted:
        model = self.services.model if self.agent.needs_model else None
        asked = "" if self.planned.verification == "default" else "+as-asked"
        return AttemptStarted(
            run=self.services.run,
            attempt=self.planned.id,
            task=self.task.id,
            task_digest=self.task.digest,
            agent=self.agent.name + (UPPER_BOUND if self.is_upper_bound else "") + asked,
            model=model.backend.name if model else None,
            seed=self.planned.seed,
            number=self.planned.number,
            retry=self.retry,
            isolation=self.site.isolation,
            config=dict(self.planned.extra_config),
            at=time.time(),
            assay_version=__version__,
            agent_process="sandbox" if is_placed(self.agent) else "runner",
            takes_solution=takes_solution(self.agent) or self.planned.brings_solution,
            attempts_task=attempts_task(self.agent),
        )

    async def run_steps(self) -> None:
        """Acts, settles and judges, step by step; an ordinary task is one step."""
        parts = step_tasks(self.planned.loaded)
        if self.branches is not None and parts[0][0] is not None:
            self.ending.record_failure(TaskError(f"{self.agent.name} tries a task as a whole, and this one has steps"))
        for number, (step, task) in enumerate(parts):
            if self.ending.broke in UNJUDGED:
                return
            last = number == len(parts) - 1
            try:
                self.attempt.task = self.site.resolved(task)
            except UserError as exc:
                self.ending.record_failure(TaskError(str(exc)))
                return
            self.attempt.solution = self._solution(task)
            self.attempt.prior = self.planned.prior[number] if number < len(self.planned.prior) else None
            await self.enter(step)
            if self.ending.broke is None:
                with self.observer.phase("agent"):
                    await self.act()
            if self.ending.broke not in UNJUDGED:
                judged = await self.settle_and_judge(step, task, last=last)
                self.verdicts.append(judged)
                if step is not None and not last and self._ends_here(judged, step):
                    break
        if parts[0][0] is not None and self.ending.broke not in UNJUDGED:
            self._combine(len(parts))

    def _solution(self, task: Task) -> Path | None:
        if task.oracle is None or not takes_solution(self.agent):
            return None
        return find_solution_folder(task.oracle, self.planned.loaded.folder)

    def _ends_here(self, judged: Sequence[Verdict], step: TaskStep) -> bool:
        if self.ending.stopped is not None or self.ending.broke is not None or self.unjudgeable is not None:
            return True
        if is_below_minimum(judged, step.min_reward):
            self.recorder.note("steps ended", {"step": step.name, "min_reward": step.min_reward})
            return True
        return False

    def _combine(self, planned: int) -> None:
        strategy = self.task.environment.parameters.get("multi_step_reward_strategy", "mean")
        verdict = combine_steps(self.verdicts, planned, strategy)
        self.recorder.verdict(verdict)
        self.verdicts = [[verdict]]

    async def enter(self, step: TaskStep | None) -> None:
        """Sets up the step."""
        try:
            with boundary(TaskError, f"setting up {self.task.id}"):
                await self.site.enter(step, self.recorder)
        except BoundaryError as exc:
            self.ending.record_failure(exc)

    async def act(self) -> None:
        """Runs the agent under the limits."""
        self.executions_before = self.recorder.executions
        self.attempt.ended = None  # what the step before ended with says nothing of this one
        self.attempt.branches = self.branches
        if self.team is not None:
            self.attempt.team = LiveTeam(self.team, self.attempt, self.recorder, self.services.model)
        problem = await self._act_under_limits()
        stopped = await self._take_adopted_branch()
        # What its model calls met goes before what its program made of that.
        cause = await attribute_model_failure(
            await self.attempt.close_endpoint() or problem, self.services.model, self.recorder.note
        )
        if self.meter.refused is not None:
            raise self.meter.refused
        if self.attempt.guard is not None:
            self.attempt.guard.end()
        if isinstance(cause, LimitReached):
            self.ending.stopped = cause.limit
        elif isinstance(cause, BoundaryError):
            if await self._is_agents_doing(cause):
                self.unjudgeable = str(cause)
            else:
                self.ending.record_failure(cause)
        else:
            self.ending.ended, self.ending.stopped = self.attempt.ended, stopped

    async def _take_adopted_branch(self) -> str | None:
        """Continues with the adopted branch's site and attempt; returns the world's limit that stopped it."""
        if self.branches is None:
            return None
        chosen = await self.branches.finish()
        self.site, self.attempt = chosen.site, chosen.attempt
        return chosen.ending.stopped

    async def _act_under_limits(self) -> AssayError | None:
        """Returns the failure or limit that ended acting; None if the agent ended by itself."""
        wall_s = self.planned.limits.wall_s or 0.0
        out_of_time = LimitReached("wall_s", wall_s, wall_s)
        wall, act_timeout = asyncio.timeout(self.planned.limits.wall_s), asyncio.timeout(None)
        try:
            async with wall, act_timeout:
                self.attempt.set_act_timeout(act_timeout)
                with self._stoppable(wall), boundary(AgentError, f"agent {self.agent.name}"):
                    await call_agent(self.agent, self.attempt)
        except TimeoutError:
            return out_of_time if wall.expired() else None
        except LimitReached as exc:
            return exc
        except BoundaryError as exc:
            # A cancelled act may fail on its way out; the limit is the cause.
            return out_of_time if wall.expired() else exc
        except AssayError as exc:
            return AgentError(str(exc))
        return None

    @contextmanager
    def _stoppable(self, wall: asyncio.Timeout) -> Iterator[None]:
        """Stops the wall clock during pauses from outside, which are noted in the record."""
        controls, before = self.services.controls, self.meter.pauses
        with nullcontext() if controls is None else controls.clock(wall, self.meter):
            try:
                yield
            finally:
                if self.meter.pauses > before:
                    self.recorder.note("paused", {"pauses": self.meter.pauses - before})

    async def settle_and_judge(self, step: TaskStep | None, task: Task, *, last: bool) -> list[Verdict]:
        """Stops remaining processes, seals the state and judges it. Verdicts on a named step do not decide."""
        results: tuple[CheckResult, ...] = ()
        more = self.services.checks if last else NO_CHECKS
        try:
            if self.unjudgeable is None:
                with self.observer.phase("settle"):
                    await self._settle(step, last=last)
            if any(check.kind != "facts" for check in (*task.checks, *more.checks)):
                await self.recorder.commit()  # these may read the record
            else:
                await self.recorder.checkpoint()
            if self.unjudgeable is not None:
                self.recorder.note("unjudgeable", {"error": self.unjudgeable[:500]})
                results = tuple(
                    CheckResult(unjudgeable_state(c, self.unjudgeable), ()) for c in (*task.checks, *more.checks)
                )
            else:
                with self.observer.phase("judge"), boundary(VerifierError, "judging"):
                    read = partial(self.recorder.store.trajectory, self.recorder.chain)
                    results = await self.site.judge(task, more._replace(transcript=read))
        except BoundaryError as exc:
            self.ending.record_failure(exc)
        if step is not None:
            results = tuple(as_step_result(step.name, result) for result in results)
        for result in results:
            for found in result.evidence:
                self.recorder.add(EvidenceAdded(found))
            self.recorder.verdict(result.verdict)
        return [r.verdict for r in results]

    async def _settle(self, step: TaskStep | None, *, last: bool) -> None:
        try:
            with boundary(EnvironmentFailure, "sealing the state"):
                await self.site.settle(self.recorder, step, last=last)
        except EnvironmentFailure as exc:
            if not await self._is_agents_doing(exc):
                raise
            self.unjudgeable = str(exc)

    async def _is_agents_doing(self, exc: BoundaryError) -> bool:
        """Returns whether the agent caused a sandbox failure: it acted, and the host works."""
        if not isinstance(exc, EnvironmentFailure) or isinstance(exc, HostFailure) or not self._has_acted():
            return False
        return isinstance(exc, StateLimitError) or await self.site.is_host_working()

    def _has_acted(self) -> bool:
        return self.recorder.steps > 0 or self.recorder.executions > self.executions_before

    def cancellation_cause(self) -> str:
        """Returns why the trial is cancelled: it was aborted from outside, or its run ends."""
        controls = self.services.controls
        aborted = controls is not None and controls.is_aborted(self.services.run, self.planned.id)
        return "aborted" if aborted else "cancelled"

    def mark_interrupted(self, why: str) -> None:
        """Leaves the chain open with a note; `resume` keeps it and starts another trial. A chain that has its end is
        left as it is."""
        if not self.chain_started or self.chain_ended:
            return
        self.recorder.note("interrupted", {"cause": why})
        self.recorder.flush()

    async def close(self) -> None:
        """Releases the endpoint and the site. A failing release is noted and does not affect verdicts."""
        try:
            with boundary(EnvironmentFailure, "closing the place"):
                await self.attempt.close_endpoint()
                if self.branches is not None:
                    await self.branches.close_all()
                await self.site.close()
        except BoundaryError as exc:
            if self.chain_started:
                self.recorder.note("not released", {"broke": exc.name, "error": str(exc)[:500]})

    async def _commit_end(self) -> None:
        """Commits the end together with events of other attempts. A cancellation meanwhile comes too late for this
        trial: its end is committed, and an abort of this attempt alone is ignored."""
        try:
            await self.recorder.commit()
        except asyncio.CancelledError:
            self.recorder.flush()
            task = asyncio.current_task()
            if self.cancellation_cause() != "aborted" or (task is not None and task.cancelling() > 1):
                raise

    async def end(self, *, may_retry: bool) -> TrialResult:
        """Closes the chain and returns the result, whose texts are redacted as those of the chain are."""
        ending, clean = self.ending, partial(self.recorder.redactor.value, shapes=False)
        metrics = self.meter.metrics()
        retry = may_retry and ending.broke in RETRYABLE and ending.retryable
        if retry:
            self.recorder.note("retried", {"broke": ending.broke, "error": ending.error})
        kept = self.site.artifacts
        frames = None if ending.traceback is None else self.recorder.redactor.text(ending.traceback)
        end = AttemptEnded(ending.ended, ending.stopped, ending.broke, ending.error, metrics, kept, time.time(), frames)
        if not retry:
            await judge_record(self.recorder, self.record, end)
        self.recorder.add(end)
        self.chain_ended = True
        with self.observer.phase("commit"):
            await self._commit_end()
        outcomes = [v for judged in self.verdicts for v in judged if v.kind == "outcome"]
        scores = [v.score for v in outcomes if v.score is not None]
        outcome = worst_outcome(v.status for v in outcomes)
        self.summary = TrialEnding(outcome, ending.stopped, ending.broke, retry, outcomes)
        return TrialResult(
            outcome=outcome,
            score=min(scores) if scores else None,
            ended=clean(ending.ended),
            stopped=ending.stopped,
            broke=ending.broke,
            error=clean(ending.error),
            metrics=metrics,
            retry=retry,
            retry_after_s=ending.retry_after_s,
        )
