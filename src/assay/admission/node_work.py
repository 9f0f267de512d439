"""Attempts of an admission on a node.

A lease names a task and a probe. The node derives the probe as the command does: from the task, the configuration and
the records of the phases before, which it reads from the place. Invariant: the same records give the same probes, so
all nodes and the command agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from assay.errors import UserError
from assay.rollout.cluster.agent import RunTrial, TrialOutcome
from assay.rollout.cluster.fetch_trials import fetch_finals
from assay.rollout.cluster.place_records import PublishedRun
from assay.rollout.cluster.recorded_trial import TrialRunner
from assay.rollout.cluster.shared_blobs import BlobUploader
from assay.rollout.cluster.transport import Lease
from assay.rollout.cluster.workloads import NodeContext, NodeParts, NodeRun
from assay.rollout.plan import PlannedAttempt
from assay.rollout.run_manifest import match_tasks
from assay.store import RunStore
from assay.tasks import LoadedTask, find_tasks

from .battery import learn_probes, make_agent, parse_config
from .config import AdmitConfig
from .subject import AdmissionSubject

WORKLOAD = "admission"
LAST_PHASE = 3


async def load_admission(published: PublishedRun, context: NodeContext) -> NodeRun:
    """Loads a published admission. Raises `UserError` if it is of another battery, or a task is missing or differs."""
    config = parse_config(published.run, published.manifest)
    recorded = msgspec.convert(published.manifest.get("tasks"), dict[str, str])
    tasks = match_tasks(recorded, find_tasks(config.tasks))
    bounds: dict[str, Any] = {
        "budget_usd": None,
        "budget_calls": None,
        "concurrency": context.slots,
    }
    return NodeRun(
        published.run,
        msgspec.structs.replace(config.as_run(), **bounds),
        tasks,
        make_agent(config),
        (),
        published.id,
        make_trials=partial(_make_trials, config),
        screening=True,
    )


def _make_trials(config: AdmitConfig, run: NodeRun, parts: NodeParts) -> RunTrial:
    return AdmissionTrials(config, run.tasks, parts)


class AdmissionTrials:
    """Runs the leases of an admission. An instance is the `run_trial` of an agent."""

    def __init__(self, config: AdmitConfig, tasks: Sequence[LoadedTask], parts: NodeParts) -> None:
        self._config, self._parts = config, parts
        blobs = BlobUploader(parts.services.store, parts.context.place)
        self._runner = TrialRunner(parts.services, blobs)
        self._tasks = {loaded.task.id: loaded for loaded in tasks}
        self._subjects: dict[str, AdmissionSubject] = {}
        self._phases: dict[str, int] = {}
        folder, run = parts.context.folder / "earlier", parts.services.run
        self._earlier = parts.context.stack.enter_context(RunStore.create(folder, run, {}))
        """Records of earlier phases, by whichever node they were made."""
        self._planning = asyncio.Lock()

    async def __call__(self, lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        """Runs one trial. Raises `StoreError`, and `UserError` if the node does not know the task or the probe."""
        if lease.run != self._parts.services.run or lease.task not in self._tasks:
            raise UserError(f"task {lease.task!r} of run {lease.run!r} is not on this node")
        async with self._planning:
            planned = await self._plan(lease)
        return await self._runner.run(planned, lease, starting)

    async def _plan(self, lease: Lease) -> PlannedAttempt:
        """Returns the attempt of a lease; goes through the task's phases until it is planned."""
        subject = self._subjects.get(lease.task)
        if subject is None:
            subject = self._subjects[lease.task] = AdmissionSubject(self._tasks[lease.task], self._config)
            subject.begin()
            self._phases[lease.task] = 1
        while True:
            for planned in subject.plan():
                if planned.id == lease.attempt:
                    return planned
            if self._phases[lease.task] == LAST_PHASE:
                raise UserError(f"the battery of task {lease.task!r} has no attempt {lease.attempt!r} on this node")
            await self._advance(subject)

    async def _advance(self, subject: AdmissionSubject) -> None:
        """Plans the next phase, from the records of the phases before."""
        parts, before = self._parts, list(subject.plan())
        found = await fetch_finals(self._earlier, parts.context.place, before)
        if found != len(before):
            raise UserError(f"{found} of {len(before)} attempts of the phases before are in the place")
        if self._phases[subject.task] == 1:
            await learn_probes(subject, self._earlier, parts.resources, parts.context.settings.cache)
        else:
            subject.go_on(self._earlier)
        self._phases[subject.task] += 1
