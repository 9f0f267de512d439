"""Replays by nodes: each reads the recorded attempts from the place, and plans a replay as the command does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from assay import __version__
from assay.agents.replay import ReplayAgent
from assay.analysis.judged_path import judged_path
from assay.errors import UserError
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import ReplayJob, plan_replay, repeat_replay, vary_replay
from assay.rollout.schedule.rounds import RunPlan
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from assay.verify.reverification import CannotRebuildError

from .cluster.agent import RunTrial, TrialOutcome
from .cluster.node_session import PlacedRunOptions
from .cluster.place_records import PublishedRun, new_run_id
from .cluster.placed_run import ADDED_KEYS, open_run_place
from .cluster.placed_work import open_placed_work
from .cluster.recorded_trial import TrialRunner
from .cluster.shared_blobs import BlobUploader
from .cluster.transport import Lease
from .cluster.work_inputs import WorkInputs, publish_inputs
from .cluster.workloads import PUBLISHED_CONCURRENCY, WORKLOAD, NodeContext, NodeParts, NodeRun

KIND = "replay"


class PublishedReplay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key `replay` of the published manifest."""

    run: str
    """The run whose attempts are replayed."""
    manifest: dict[str, Any]
    """Its manifest."""
    config: ReplayConfig
    chains: dict[str, str]
    """As in `ReplayJob`."""
    samples: tuple[str, ...]


@asynccontextmanager
async def replay_on_nodes(
    settings: Settings, options: PlacedRunOptions, progress: Progress, job: ReplayJob
) -> AsyncIterator[RunPlan]:
    """Yields what has replays made by nodes. With the first arguments given it is an `OpenAttempts`.

    Raises:
        UserError: Nodes or place are missing or invalid.
        StoreError: The place is unsuitable.
    """
    place = await open_run_place(options, settings)
    await publish_inputs(place, job.made.run, job.source, job.chains.values())
    recorded = {key: value for key, value in job.source.manifest().items() if key not in ADDED_KEYS}
    work = PublishedReplay(job.source.run, recorded, job.config, job.chains, job.samples)
    manifest = {
        WORKLOAD: KIND,
        KIND: msgspec.to_builtins(work),
        "assay_version": __version__,
        PUBLISHED_CONCURRENCY: job.config.concurrency,
    }
    published = PublishedRun(1, job.made.run, new_run_id(), str(Path.cwd()), manifest)
    retries = recorded_config(job.source, job.config).retries
    async with open_placed_work(published, settings, options, progress) as placed:

        async def run_on_nodes(planned: Sequence[PlannedAttempt], shown: Progress) -> None:
            await placed.run_attempts(job.made, planned, shown, retries)

        yield run_on_nodes


async def load_replay(published: PublishedRun, context: NodeContext) -> NodeRun:
    """Loads a published replay on a node. Raises `UserError` if a task is missing or differs."""
    try:
        work = msgspec.convert(published.manifest.get(KIND), PublishedReplay)
    except msgspec.ValidationError as exc:
        raise UserError(f"run {published.run!r} does not say what is to be replayed ({exc})") from exc
    source = context.stack.enter_context(RunStore.create(context.folder / "source", work.run, work.manifest))
    tasks = context.stack.enter_context(RecordedTasks.chosen(source, work.config))
    attempts = RecordedAttempts(work, source, tasks, WorkInputs(context.place, published.run, source))
    loaded = [await attempts.load(chain) for chain in work.samples]
    config = msgspec.structs.replace(recorded_config(source, work.config), concurrency=context.slots)
    make = partial(_make_trials, attempts)
    return NodeRun(published.run, config, loaded, ReplayAgent(), (), published.id, make_trials=make)


class RecordedAttempts:
    """The attempts of a replay on a node."""

    def __init__(self, work: PublishedReplay, source: RunStore, tasks: RecordedTasks, inputs: WorkInputs) -> None:
        self._work, self._source, self._tasks, self._inputs = work, source, tasks, inputs

    async def load(self, chain: str) -> LoadedTask:
        """Reads a recorded attempt from the place, and returns its task. Raises `UserError` without it."""
        await self._inputs.fetch(chain)
        try:
            return self._tasks.of(judged_path(self._source.trajectory(chain)))
        except CannotRebuildError as exc:
            raise UserError(f"the task of {chain!r} is not on this node: {exc}") from exc

    async def plan(self, name: str) -> PlannedAttempt:
        """Returns the replay of this id. Raises `UserError` for an unknown one."""
        for attempt in sorted(self._work.chains, key=len, reverse=True):
            if name == attempt or name.startswith(f"{attempt}+"):
                chain = self._work.chains[attempt]
                loaded = await self.load(chain)
                for planned in self._replays(chain, loaded):
                    if planned.id == name:
                        return planned
        raise UserError(f"{name!r} is not a replay of {self._work.run} on this node")

    def _replays(self, chain: str, loaded: LoadedTask) -> Iterator[PlannedAttempt]:
        row = self._source.row(chain)
        assert row is not None  # it was loaded
        plan = plan_replay(self._source, row, loaded, self._work.config)
        yield from repeat_replay(plan, self._work.config.times)
        for _, varied in vary_replay(plan, row):
            yield varied


def _make_trials(attempts: RecordedAttempts, run: NodeRun, parts: NodeParts) -> RunTrial:
    runner = TrialRunner(parts.services, BlobUploader(parts.services.store, parts.context.place))

    async def run_replay(lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        if lease.run != run.name:
            raise UserError(f"run {lease.run!r} is not on this node")
        return await runner.run(await attempts.plan(lease.attempt), lease, starting)

    return run_replay
