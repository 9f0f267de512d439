"""Runs leases as recorded trials: the same trial as on one machine, over a run store on the node's own disk.

The node's store is a spool: each trial's chain is read from it exactly as it was committed there, and the object store
decides. Two trials that a node holds have chains of their own. Blobs are the caller's: they must be in shared
storage before a chain that names them is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from assay.errors import UserError
from assay.records import Isolation, Task
from assay.rollout.attempt.preparation import layer_demands, machine_needs
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.attempt.site import NO_CHECKS, AttemptSite
from assay.rollout.attempt.trial import Services, TrialResult, run_trial
from assay.rollout.config import RunConfig
from assay.rollout.limits.run_budget import BudgetLimits
from assay.rollout.plan import PlannedAttempt, attempt_id, attempt_seed, merge_limits, require_plannable
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import undisturbed_digest
from assay.rollout.schedule.policies import policy_named
from assay.rollout.schedule.rounds import levels_of
from assay.store import RunStore
from assay.store.chain_copy import ChainCopy
from assay.tasks import LoadedTask, TaskStep
from assay.verify import CheckResult, RunChecks

from .agent import TrialOutcome
from .commits import TrialBody, pack_trial
from .placement import Requirements
from .run_state import ClusterRun
from .transport import Lease

Plan = Callable[[LoadedTask, int, int], PlannedAttempt]
StoreBlobs = Callable[[Sequence[bytes]], Awaitable[tuple[str, ...]]]
"""Puts the blobs that events name, given as their exact bytes, into shared storage, and returns their digests."""


def attempt_planner(config: RunConfig, agent: str) -> Plan:
    """Returns the function that plans an attempt from its task, number and round; agent and coordinator use the same.

    Raises:
        UserError: The configuration needs what only one machine offers: early stopping.
    """
    if config.early_stop is not None:
        raise UserError("early_stop is fitted to whole trajectories: it runs on one machine only")

    def plan(loaded: LoadedTask, number: int, round_number: int) -> PlannedAttempt:
        allocation: dict[str, Any] = {"allocation": {"policy": config.allocate, "round": round_number}}
        return PlannedAttempt(
            id=attempt_id(loaded.task.id, number),
            loaded=loaded,
            number=number,
            seed=attempt_seed(config.seed, undisturbed_digest(loaded.task), agent, number),
            limits=merge_limits(config.limits, loaded.task.limits),
            extra_config=allocation if config.in_rounds else {},
        )

    return plan


def task_requirements() -> Callable[[LoadedTask], Requirements]:
    """Returns the function that names what attempts at a task need of a node. It reads each task's Dockerfile once."""
    known: dict[str, Requirements] = {}

    def require(loaded: LoadedTask) -> Requirements:
        digest = loaded.task.digest
        if digest not in known:
            known[digest] = Requirements(*machine_needs(loaded), layer_demands(loaded))
        return known[digest]

    return require


def cluster_run(name: str, config: RunConfig, tasks: Sequence[LoadedTask], agent: str) -> ClusterRun:
    """Returns the run of a configuration for a coordinator. Raises `UserError` if it can run on one machine only, or
    has too many attempts."""
    require_plannable(config.total(len(tasks)))
    return ClusterRun(
        name,
        tasks,
        config.total(len(tasks)),
        policy_named(config.allocate, config.allocate_options),
        attempt_planner(config, agent),
        levels=levels_of(config, tasks),
        retries=config.retries,
        budget=BudgetLimits(config.budget_usd, config.budget_calls),
        require=task_requirements(),
    )


class TrialRunner:
    """Runs planned attempts on a node, and packs their records."""

    def __init__(self, services: Services, store_blobs: StoreBlobs | None = None) -> None:
        """Creates the runner.

        Args:
            services: Those of the run, over the node's own store; without a budget, which the coordinator keeps.
            store_blobs: None if the blob store of `services` is shared by all nodes.
        """
        self._services, self._store_blobs = services, store_blobs

    async def run(self, planned: PlannedAttempt, lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        """Runs one trial of the attempt of a lease. Raises `StoreError`."""
        services = self._services._replace(make_site=lambda one: _BoundedSite(self._services.make_site(one), starting))
        retry, copy = self._unused_retry(planned, lease.retry), ChainCopy()
        chain = planned.chain(retry)
        release = partial(services.store.release, chain)
        services.store.watch(chain, copy.add_committed)
        try:
            result = await run_trial(services, planned, retry, may_retry=lease.may_retry)
        except asyncio.CancelledError:
            if not services.store.has_chain(chain):
                raise
            return TrialOutcome("interrupted", await self._pack(chain, copy, retry, None), release)
        body = await self._pack(chain, copy, retry, result)
        return TrialOutcome("retry" if result.retry else "final", body, release)

    def _unused_retry(self, planned: PlannedAttempt, first: int) -> int:
        retry = first
        while self._services.store.has_chain(planned.chain(retry)):
            retry += 1
        return retry

    async def _pack(self, chain: str, copy: ChainCopy, retry: int, result: TrialResult | None) -> TrialBody:
        head, events = copy.head, copy.events
        if not copy.is_whole:
            head, events = read_chain(self._services.store, chain)
        blobs = () if self._store_blobs is None else await _finish(self._store_blobs(events))
        return pack_trial(chain, retry, head, events, result, blobs)


class LocalTrials:
    """Runs the leases of one run on a node. An instance is the `run_trial` of an agent."""

    def __init__(
        self, services: Services, tasks: Sequence[LoadedTask], plan: Plan, store_blobs: StoreBlobs | None = None
    ) -> None:
        """Creates the runner.

        Args:
            services: As of `TrialRunner`.
            tasks: The tasks of the run.
            plan: `attempt_planner` of the run's configuration.
            store_blobs: As of `TrialRunner`.
        """
        self._run, self._plan, self._runner = services.run, plan, TrialRunner(services, store_blobs)
        self._tasks: Mapping[str, LoadedTask] = {loaded.task.id: loaded for loaded in tasks}

    async def __call__(self, lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        """Runs one trial. Raises `StoreError`, and `UserError` if the node does not have the task."""
        if lease.run != self._run or lease.task not in self._tasks:
            raise UserError(f"task {lease.task!r} of run {lease.run!r} is not on this node")
        planned = self._plan(self._tasks[lease.task], lease.number, lease.round)
        return await self._runner.run(planned, lease, starting)


async def _finish(storing: Awaitable[tuple[str, ...]]) -> tuple[str, ...]:
    """Awaits the upload of an ended trial's blobs. The first cancellation comes too late to cut the trial; the second
    ends the upload."""
    task = asyncio.ensure_future(storing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        return await task


def read_chain(store: RunStore, chain: str) -> tuple[str, list[bytes]]:
    """Returns the head of a recorded chain and the exact bytes of its events."""
    links = list(store.links(chain))
    return links[-1].digest, [link.body for link in links]


class _BoundedSite:
    """A site that opens under a semaphore."""

    def __init__(self, site: AttemptSite, starting: asyncio.Semaphore) -> None:
        self._site, self._starting = site, starting
        self.isolation: Isolation | None = site.isolation
        self.artifacts: dict[str, str] = site.artifacts

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        async with self._starting:
            await self._site.open(attempt, recorder)
        self.isolation = self._site.isolation

    def resolved(self, task: Task) -> Task:
        return self._site.resolved(task)

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        await self._site.enter(step, recorder)

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        await self._site.settle(recorder, step, last=last)
        self.artifacts = self._site.artifacts

    async def judge(self, task: Task, more: RunChecks = NO_CHECKS) -> tuple[CheckResult, ...]:
        return await self._site.judge(task, more)

    async def preview(self, task: Task) -> tuple[CheckResult, ...]:
        return await self._site.preview(task)

    async def fork(self) -> AttemptSite:
        return await self._site.fork()

    async def is_host_working(self) -> bool:
        return await self._site.is_host_working()

    async def close(self) -> None:
        await self._site.close()
