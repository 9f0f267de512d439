"""Re-verification by nodes: the command leases units of attempts, a node judges them as one machine does.

A unit is one attempt, or several that ended in the same state, which are judged once. Nodes read the recorded attempts
from the place (`cluster.work_inputs`) and commit, for each unit, what was judged. The name of the work follows from
what is to be judged and by what, so that the same command finds what an interrupted one left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from assay import __version__
from assay.agents.null import NullAgent
from assay.errors import StoreError, UserError
from assay.records import Limits, VerdictStatus, digest_record
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import ForwardedProgress, Progress
from assay.rollout.rejudge.config import ReverifyConfig
from assay.rollout.rejudge.judging import SharedState, judge_again
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.reverify import JudgedAttempt, JudgeJob, ReverificationWork, basis_of
from assay.rollout.rejudge.shared_results import SharedResults
from assay.settings import Settings
from assay.store import RunStore
from assay.verify.reverification import CannotRebuildError, find_sealed_states

from .cluster.agent import RunTrial, TrialOutcome
from .cluster.commits import TrialRecord, head_of, pack_trial, read_final, unpack_events
from .cluster.node_session import PlacedRunOptions, require_nodes
from .cluster.place_records import PublishedRun
from .cluster.placed_run import ADDED_KEYS, open_run_place
from .cluster.placed_work import PlacedWork, open_placed_work
from .cluster.shared_blobs import BlobUploader, fetch_blobs
from .cluster.transport import Lease
from .cluster.work_inputs import WorkInputs, publish_inputs
from .cluster.workloads import PUBLISHED_CONCURRENCY, WORKLOAD, NodeContext, NodeParts, NodeRun

KIND = "reverification"
ATTEMPT_S = 3600.0
"""Time limit of a unit for each of its attempts."""


class JudgeUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attempts that one node judges, one after the other."""

    chains: tuple[str, ...]
    basis: str
    """Digest of the task and of what judges it; a node with another one judges nothing."""


class PublishedReverification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key `reverification` of the published manifest."""

    run: str
    """The run that is judged again."""
    manifest: dict[str, Any]
    """Its manifest."""
    config: ReverifyConfig
    units: dict[str, JudgeUnit]
    """By the name of the unit, which is its first chain."""
    samples: tuple[str, ...]
    """One chain of each task, by which a node knows what it has to open."""


async def judge_on_nodes(settings: Settings, options: PlacedRunOptions, progress: Progress, job: JudgeJob) -> None:
    """Has attempts judged by nodes. With the first arguments given it is a `JudgeElsewhere`.

    Raises:
        UserError: Nodes or place are missing or invalid.
        StoreError: The place is unsuitable, or a record there is damaged.
        EnvironmentFailure: All local nodes have ended.
    """
    require_nodes(options)
    works = {one.row.chain: one for one in job.work}
    units = _group(job.store, job.work)
    work = _describe(job, units)
    run, run_id = _name(job, works, work)
    place = await open_run_place(options, settings)
    await publish_inputs(place, run, job.store, works)
    manifest = {
        WORKLOAD: KIND,
        KIND: msgspec.to_builtins(work),
        "assay_version": __version__,
        "attempts": len(units),
        PUBLISHED_CONCURRENCY: job.config.concurrency,
    }
    published = PublishedRun(1, run, run_id, str(Path.cwd()), manifest)
    planned = [_plan(works[unit.chains[0]], name, unit) for name, unit in units.items()]
    async with open_placed_work(published, settings, options, progress) as placed:
        await placed.complete(planned, _UnitProgress(progress, units, job))
        for name, unit in units.items():
            await _take_unit(placed, job, name, unit)


def _group(store: RunStore, work: Sequence[ReverificationWork]) -> dict[str, JudgeUnit]:
    """Groups the attempts that ended in the same state of a sandbox and are judged by the same."""
    chains: dict[str, list[str]] = {}
    bases: dict[str, str] = {}
    for one in work:
        assert one.loaded is not None  # what could not be rebuilt is no work
        assert one.basis is not None
        key = one.row.chain
        if one.loaded.task.environment.kind == "workspace":
            states = find_sealed_states(store.trajectory(one.row.chain))
            key = digest_record([one.basis, states[0].data.get("digest")]) if states else key
        chains.setdefault(key, []).append(one.row.chain)
        bases[key] = one.basis
    return {some[0]: JudgeUnit(tuple(some), bases[key]) for key, some in chains.items()}


def _describe(job: JudgeJob, units: dict[str, JudgeUnit]) -> PublishedReverification:
    manifest = {key: value for key, value in job.store.manifest().items() if key not in ADDED_KEYS}
    samples = {one.basis: one.row.chain for one in job.work}
    return PublishedReverification(job.store.run, manifest, job.config, units, tuple(samples.values()))


def _name(job: JudgeJob, works: Mapping[str, ReverificationWork], work: PublishedReverification) -> tuple[str, str]:
    """Returns the name of the work and its id. A further judgement of the same has others."""
    earlier = [(chain, one.row.head, len(one.known)) for chain, one in works.items()]
    digest = digest_record([job.store.run, earlier, msgspec.to_builtins(work.units), msgspec.to_builtins(job.config)])
    digits = digest.rpartition(":")[2]
    return f"verify-{digits[:24]}", digits[:32]


def _plan(work: ReverificationWork, name: str, unit: JudgeUnit) -> PlannedAttempt:
    assert work.loaded is not None
    return PlannedAttempt(name, work.loaded, 0, 0, Limits(wall_s=ATTEMPT_S * len(unit.chains)))


class _UnitProgress(ForwardedProgress):
    """Counts judged attempts."""

    def __init__(self, whole: Progress, units: Mapping[str, JudgeUnit], job: JudgeJob) -> None:
        super().__init__(whole)
        self._units, self._job, self._judged = units, job, 0

    def started(self, attempt: PlannedAttempt) -> None:
        """Does nothing: units are no attempts of a run."""

    def retrying(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        """Does nothing."""

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        self._judged += len(self._units[attempt.id].chains)
        self._job.on_progress(self._judged)


async def _take_unit(placed: PlacedWork, job: JudgeJob, name: str, unit: JudgeUnit) -> None:
    record = await read_final(placed.objects, placed.run, name)
    judged = _decode(record)
    if tuple(one.chain for one in judged) != unit.chains:
        raise StoreError(f"the final {name!r} of {placed.run} is of other attempts: it was changed")
    await fetch_blobs(placed.objects, job.store.blobs, record.body.blobs)
    for one in judged:
        job.take(one)


def _decode(record: TrialRecord) -> list[JudgedAttempt]:
    try:
        return [msgspec.msgpack.decode(event, type=JudgedAttempt) for event in unpack_events(record.body)]
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"the final {record.attempt!r} of {record.run} is damaged: {exc}") from exc


async def load_reverification(published: PublishedRun, context: NodeContext) -> NodeRun:
    """Loads a published re-verification on a node. Raises `UserError` if a task is missing or differs."""
    try:
        work = msgspec.convert(published.manifest.get(KIND), PublishedReverification)
    except msgspec.ValidationError as exc:
        raise UserError(f"run {published.run!r} does not say what is to be judged ({exc})") from exc
    source = context.stack.enter_context(RunStore.create(context.folder / "source", work.run, work.manifest))
    tasks = context.stack.enter_context(RecordedTasks.chosen(source, work.config))
    inputs = WorkInputs(context.place, published.run, source)
    loaded = []
    for chain in work.samples:
        await inputs.fetch(chain)
        try:
            loaded.append(tasks.of_chain(chain))
        except CannotRebuildError as exc:
            raise UserError(f"the task of {chain!r} is not on this node: {exc}") from exc
    config = msgspec.structs.replace(recorded_config(source, work.config), concurrency=context.slots)
    make = partial(_make_trials, work, source, tasks, inputs)
    return NodeRun(published.run, config, loaded, NullAgent(), (), published.id, make_trials=make)


def _make_trials(
    work: PublishedReverification,
    source: RunStore,
    tasks: RecordedTasks,
    inputs: WorkInputs,
    run: NodeRun,
    parts: NodeParts,
) -> RunTrial:
    async def run_unit(lease: Lease, _: asyncio.Semaphore) -> TrialOutcome:
        unit = work.units.get(lease.attempt)
        if lease.run != run.name or unit is None:
            raise UserError(f"{lease.attempt!r} is not a unit of run {run.name!r}")
        shared, judged = SharedResults(), []
        for chain in unit.chains:
            await inputs.fetch(chain)
            trajectory, loaded = tasks.mark_import(source.trajectory(chain)), tasks.of_chain(chain)
            if basis_of(loaded, work.config) != unit.basis:
                raise UserError(f"this node has another version of the task {loaded.task.id!r}, or of what judges it")
            found = await judge_again(
                trajectory,
                loaded,
                parts.resources,
                source.blobs,
                work.config.again,
                fresh=work.config.fresh,
                shared=None if work.config.fresh else SharedState(shared, unit.basis),
            )
            results = tuple((was.check, now) for was, now in found)
            judged.append(JudgedAttempt(chain, results, shared.judged_with(chain)))
        blobs = {digest for one in judged for _, now in one.found for item in now.evidence for digest in item.blobs}
        await uploader.upload(sorted(blobs))
        events = [msgspec.msgpack.encode(one) for one in judged]
        head = head_of(lease.attempt, events)
        body = pack_trial(lease.attempt, lease.retry, head, events, _result(judged), tuple(sorted(blobs)))
        return TrialOutcome("final", body)

    uploader = BlobUploader(source, parts.context.place)
    return run_unit


def _result(judged: Sequence[JudgedAttempt]) -> TrialResult:
    """Returns the first verdict of a unit, for those that watch the work."""
    statuses: list[VerdictStatus] = [now.verdict.status for one in judged for _, now in one.found]
    return TrialResult(statuses[0] if statuses else None, None, "judged", None, None, None, {})
