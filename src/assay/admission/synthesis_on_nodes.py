"""Units of `assay synth repository`, `programs` and `questions` on nodes: a node judges one a lease.

The command measures the tests of the source once, and publishes them, and each unit (a candidate, a function, or a few
functions whose calls are traced), as parts of the work. A node opens the same source in sandboxes of its own, and
commits the outcome of each unit. The name of the work follows from all that decides about units, so a repeated command
finds what nodes judged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from assay import __version__
from assay.agents.null import NullAgent
from assay.environments.workspace.choose import choose_backend
from assay.errors import StoreError, UserError
from assay.records import EnvironmentSpec, Limits, Task, digest_record
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.agent import RunTrial, TrialOutcome
from assay.rollout.cluster.commits import TrialRecord, head_of, pack_trial, read_final, unpack_events
from assay.rollout.cluster.node_session import PlacedRunOptions
from assay.rollout.cluster.place_records import PublishedRun
from assay.rollout.cluster.placed_run import open_run_place
from assay.rollout.cluster.placed_work import PlacedWork, open_placed_work
from assay.rollout.cluster.transport import Lease
from assay.rollout.cluster.work_parts import part_key, publish_part, read_part
from assay.rollout.cluster.workloads import PUBLISHED_CONCURRENCY, WORKLOAD, NodeContext, NodeParts, NodeRun
from assay.rollout.config import RunConfig
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import ForwardedProgress
from assay.rollout.progress import Progress as RunProgress
from assay.settings import Settings
from assay.store.objects.interface import ObjectStore
from assay.store.objects.transfer import transfer
from assay.synthesis import FROM_JOURNAL
from assay.synthesis.judging import (
    UNIT_TYPES,
    JudgeElsewhere,
    JudgeUnit,
    JudgingBasis,
    Outcome,
    TaskCandidate,
    Unit,
    is_of_unit,
    open_judge,
    require_inside,
)
from assay.tasks import LoadedTask

KIND = "synthesis"
Part = TypeVar("Part", bound=JudgingBasis | Unit)
Tell = Callable[[str, int, int], None]
BASIS = "basis"
"""Name of the part with the `JudgingBasis`; the others are units, by digest."""
UNIT_S = 3600.0
"""Time limit of one unit."""


@contextlib.asynccontextmanager
async def judge_on_nodes(
    settings: Settings, options: PlacedRunOptions, speak: RunProgress
) -> AsyncIterator[JudgeElsewhere]:
    """Yields what has units judged by nodes, which are started with the first of them.

    Raises:
        UserError: Nodes or place are missing or invalid.
        StoreError: The place is unsuitable.
    """
    place = await open_run_place(options, settings)
    async with contextlib.AsyncExitStack() as stack:
        opened: list[PlacedWork] = []

        async def judge(basis: JudgingBasis, wave: Sequence[Unit], tell: Tell) -> list[Outcome]:
            run = _name_work(basis)
            await _publish(place, run, BASIS, basis, _without_costs)
            await transfer(wave, lambda one: _publish_unit(place, run, one))
            if not opened:
                opening = open_placed_work(_published(run, basis), settings, options, speak)
                opened.append(await stack.enter_async_context(opening))
            planned = [_plan(one, basis) for one in wave]
            await opened[0].complete(planned, _Counted(speak, tell, len(wave)))
            return [_decode(await read_final(place, run, one.digest), one, basis) for one in wave]

        yield judge


def _name_work(basis: JudgingBasis) -> str:
    """Returns the name of the work. The measured tests decide, too, and another machine may find another one stable."""
    measured = basis.reference
    tests = [sorted(measured.passing), measured.cases, measured.covered]
    decides = digest_record([*tests, basis.kind, basis.programs]).partition(":")[2][:16]
    return f"synth-{basis.key}-{decides}"


def _without_costs(basis: JudgingBasis) -> object:
    """Returns what commands of one work have alike: each measured what its tests cost, and why it left some out."""
    measured = basis.reference
    return basis.key, basis.kind, basis.programs, measured.passing.keys(), measured.cases, measured.covered


def _unit_without_costs(one: Unit) -> object:
    return (
        msgspec.structs.replace(one, passing=dict.fromkeys(one.passing, 0.0)) if isinstance(one, TaskCandidate) else one
    )


async def _publish_unit(place: ObjectStore, run: str, one: Unit) -> None:
    await _publish(place, run, one.digest, one, _unit_without_costs)


async def _publish(place: ObjectStore, run: str, name: str, part: Part, compared: Callable[[Part], object]) -> None:
    """Publishes a part, or finds it. Raises `StoreError` if another one is there: nodes would judge that."""
    key = part_key(run, name)
    stored = _decode_part(await publish_part(place, run, name, msgspec.json.encode(part)), key, type(part))
    if compared(stored) != compared(part):
        raise StoreError(
            f"{key} is not what this command publishes: it was changed, or the tests of the same tree passed otherwise "
            "on another machine; choose another place"
        )


def _published(run: str, basis: JudgingBasis) -> PublishedRun:
    manifest = {WORKLOAD: KIND, "assay_version": __version__, PUBLISHED_CONCURRENCY: basis.config.concurrency}
    return PublishedRun(1, run, basis.key, str(Path.cwd()), manifest)


def _plan(one: Unit, basis: JudgingBasis) -> PlannedAttempt:
    """Returns the attempt that judges a unit; it has no task yet."""
    task = Task(basis.config.source, "", EnvironmentSpec("workspace"), checks=(), digest="")
    return PlannedAttempt(one.digest, LoadedTask(task, None), 0, 0, Limits(wall_s=UNIT_S))


class _Counted(ForwardedProgress):
    """Counts judged units. Those that the place had before are an earlier run's, as are those of a journal: what they
    cost is unknown."""

    def __init__(self, whole: RunProgress, tell: Tell, total: int) -> None:
        super().__init__(whole)
        self._tell, self._total, self._done = tell, total, 0

    def begin(self, *, total: int, done: int) -> None:
        self._done = done
        if done:
            self._tell(FROM_JOURNAL, done, total)

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        self._done += 1
        self._tell("judging on nodes", self._done, self._total)


def _decode(record: TrialRecord, one: Unit, basis: JudgingBasis) -> Outcome:
    """Returns the outcome of a unit. Raises `StoreError` if its final is damaged, or of another unit."""
    try:
        (event,) = unpack_events(record.body)
        outcome: Outcome = msgspec.json.decode(event, type=UNIT_TYPES[basis.kind].outcome)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"the final {record.attempt!r} of {record.run} is damaged: {exc}") from exc
    if not is_of_unit(outcome, one):
        raise StoreError(f"the final {record.attempt!r} of {record.run} is of another candidate: it was changed")
    return outcome


async def load_synthesis(published: PublishedRun, context: NodeContext) -> NodeRun:
    """Opens the source of a published synthesis on a node. Raises `UserError` if it is another one here."""
    basis = await _read(context.place, published.run, BASIS, JudgingBasis)
    backend, _ = await choose_backend(context.backend)
    context.stack.push_async_callback(backend.close)
    judge = await context.stack.enter_async_context(
        open_judge(basis, slots=context.slots, backend=backend, cache=context.settings.cache)
    )
    config = RunConfig(tasks=(basis.config.source,), agent="null", concurrency=context.slots)
    make = partial(_make_trials, judge, basis)
    return NodeRun(published.run, config, (), NullAgent(), (), published.id, make_trials=make)


def _make_trials(judge: JudgeUnit, basis: JudgingBasis, run: NodeRun, parts: NodeParts) -> RunTrial:
    kind = UNIT_TYPES[basis.kind].unit

    async def run_unit(lease: Lease, _: asyncio.Semaphore) -> TrialOutcome:
        if lease.run != run.name:
            raise UserError(f"{lease.attempt!r} is not a candidate of run {run.name!r}")
        outcome = await judge(await _read_unit(parts.context.place, run.name, lease.attempt, kind))
        events, gate = [msgspec.json.encode(outcome)], getattr(outcome, "gate", "kept")
        result = TrialResult("pass" if gate == "kept" else "fail", None, gate, None, None, None, {})
        return TrialOutcome(
            "final", pack_trial(lease.attempt, lease.retry, head_of(lease.attempt, events), events, result)
        )

    return run_unit


async def _read_unit(place: ObjectStore, run: str, name: str, kind: type[Unit]) -> Unit:
    """Reads a unit. Raises as `_read`, and `StoreError` if it is another one or names paths outside its tree."""
    one = await _read(place, run, name, kind)
    if one.digest != name:
        raise StoreError(f"the candidate {name!r} of {run} is {one.digest!r}: it was moved")
    try:
        require_inside(one)
    except UserError as exc:
        raise StoreError(f"{part_key(run, name)} is refused: {exc}") from exc
    return one


async def _read(place: ObjectStore, run: str, name: str, kind: type[Part]) -> Part:
    """Reads a part. Raises `UserError` if it is absent, `StoreError` if it is damaged."""
    key = part_key(run, name)
    data = await read_part(place, key)
    if data is None:
        raise UserError(f"{key} is missing: it was removed, or the command has not started")
    return _decode_part(data, key, kind)


def _decode_part(data: bytes, key: str, kind: type[Part]) -> Part:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{key} is damaged: {exc}") from exc
