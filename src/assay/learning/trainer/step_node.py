"""A node of a training: attempts of its runs, with the weights that each run names."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.rollout.cluster.agent import RunTrial, TrialOutcome
from assay.rollout.cluster.objects import object_name
from assay.rollout.cluster.place_records import PublishedRun
from assay.rollout.cluster.recorded_trial import TrialRunner
from assay.rollout.cluster.shared_blobs import BlobUploader, fetch_blobs
from assay.rollout.cluster.transport import Lease
from assay.rollout.cluster.work_parts import any_part, part_key, read_part
from assay.rollout.cluster.workloads import NodeContext, NodeParts, NodeRun
from assay.rollout.limits.contract_guards import ActiveContracts
from assay.rollout.plan import PlannedAttempt
from assay.rollout.run_manifest import parse_manifest
from assay.rollout.runs import make_services
from assay.store import BlobStore, RunStore
from assay.store.objects.interface import ObjectStore
from assay.tasks import find_tasks

from .attempts_on_nodes import KIND, PublishedPart, agent_of, decode_part, find_part_tasks, plan_part
from .checkpoint_size import require_proportionate
from .policy import TrainedPolicy
from .recipe import ImproveRecipe
from .rollouts import tasks_of_step

WEIGHTS = ".safetensors"
MOST_DESCRIPTION_BYTES = 64 << 20
"""Of each file of a checkpoint that holds no weights."""


async def load_improvement(published: PublishedRun, context: NodeContext) -> NodeRun:
    """Loads a published training on a node. Raises `UserError` if it is of another version, or a task is missing."""
    try:
        recipe = msgspec.convert(published.manifest.get(KIND), ImproveRecipe)
    except msgspec.ValidationError as exc:
        raise UserError(f"run {published.run!r} does not say how it trains ({exc})") from exc
    part = await _first_part(context.place, published.run)
    config, _ = parse_part(part)
    policy = await fetch_policy(context.place, part, recipe, is_first=True)
    import torch

    torch.set_num_threads(1)  # generation of a small model is slower with more
    backend = policy.backend(str(config.model))
    context.stack.push_async_callback(backend.close)
    tasks = (*find_tasks(recipe.evaluate.tasks), *_first_tasks(recipe))
    bounds: dict[str, Any] = {"budget_usd": None, "budget_calls": None, "concurrency": context.slots}
    return NodeRun(
        published.run,
        msgspec.structs.replace(config, **bounds),
        tasks,
        agent_of(config, str(part.manifest.get("agent"))),
        (),
        published.id,
        make_trials=partial(_make_trials, recipe, part),
        model=backend,
    )


def _first_tasks(recipe: ImproveRecipe) -> Any:
    """Returns tasks of the first step, by which a node knows what it has to open."""
    if not recipe.steps:
        return ()
    return tasks_of_step(recipe.rollout.tasks, recipe.rollout.groups, 1, recipe.seed).loaded


async def _first_part(place: ObjectStore, work: str) -> PublishedPart:
    """Returns a part of a work; the command publishes one before the work."""
    key = await any_part(place, work)
    data = None if key is None else await read_part(place, key)
    if key is None or data is None:
        raise UserError(f"run {work!r} has no weights in the place")
    return decode_part(data, key)


def parse_part(part: PublishedPart) -> tuple[Any, dict[str, str]]:
    """Returns the configuration of a part, and the digests of its tasks. Raises `UserError`."""
    try:
        return parse_manifest(part.manifest)
    except (KeyError, msgspec.ValidationError) as exc:
        raise UserError(f"run {part.run!r} does not say how it was made ({exc})") from exc


async def fetch_policy(
    place: ObjectStore, part: PublishedPart, recipe: ImproveRecipe, *, is_first: bool = False
) -> TrainedPolicy:
    """Loads the weights of a part from the place. The first part's configuration and tokenizer, which those of the
    others equal (`require_same_engine`), are bounded before.

    Raises:
        UserError: They do not load, or the configuration describes a much larger model.
        StoreError: They are missing, or not those of their version.
    """
    with tempfile.TemporaryDirectory(prefix="assay-weights-") as text:
        folder = Path(text)
        blobs = BlobStore(folder / "blobs")
        described = {digest for name, digest in part.files.items() if not name.endswith(WEIGHTS)}
        await fetch_blobs(place, blobs, described, limit=MOST_DESCRIPTION_BYTES)
        await fetch_blobs(place, blobs, set(part.files.values()))
        checkpoint = folder / "checkpoint"
        checkpoint.mkdir()
        for name, digest in part.files.items():
            (checkpoint / name).hardlink_to(blobs.path(digest))
        if is_first:
            await asyncio.to_thread(require_proportionate, checkpoint)
        policy = await asyncio.to_thread(TrainedPolicy.open, checkpoint, recipe.model)
    if policy.version != part.version:
        raise StoreError(f"the weights of run {part.run!r} are {policy.version}, and not {part.version}")
    return policy


def require_same_engine(part: PublishedPart, opened: PublishedPart) -> None:
    """Raises `StoreError` unless a part differs from the one that was opened by its weights alone: only they are
    replaced, and whoever can write to the place could publish a part with another tokenizer before the others."""
    if _engine_of(part) != _engine_of(opened):
        raise StoreError(
            f"run {part.run!r} has another agent, tokenizer or model configuration than {opened.run!r}, by which this "
            "node was opened: it was changed, or made by another version of Transformers; finish it on one machine"
        )


def _engine_of(part: PublishedPart) -> object:
    config, _ = parse_part(part)
    files = {name: digest for name, digest in part.files.items() if not name.endswith(WEIGHTS)}
    return files, config.agent, config.agent_options, config.model, part.manifest.get("agent")


def _make_trials(recipe: ImproveRecipe, opened: PublishedPart, run: NodeRun, parts: NodeParts) -> RunTrial:
    return StepTrials(recipe, opened, run, parts)


class _OpenPart(NamedTuple):
    """A run whose leases a node has."""

    version: str
    planned: Mapping[str, PlannedAttempt]
    runner: TrialRunner
    store: RunStore
    folder: Path

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class StepTrials:
    """Runs the leases of a training: `RUN/ATTEMPT`. An instance is the `run_trial` of an agent."""

    def __init__(self, recipe: ImproveRecipe, opened: PublishedPart, run: NodeRun, parts: NodeParts) -> None:
        self._recipe, self._opened, self._run, self._parts = recipe, opened, run, parts
        self._version = opened.version
        self._open: dict[str, _OpenPart] = {}
        self._running: dict[str, int] = {}
        self._opening = asyncio.Lock()
        parts.context.stack.callback(self._close_all)

    async def __call__(self, lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        """Runs one trial. Raises `StoreError`, and `UserError` if the node does not know the attempt."""
        run, _, attempt = lease.attempt.partition("/")
        if lease.run != self._run.name:
            raise UserError(f"{lease.attempt!r} is not an attempt of run {self._run.name!r}")
        self._running[run] = self._running.get(run, 0) + 1
        try:
            async with self._opening:
                part = await self._enter(run)
            if attempt not in part.planned:
                raise UserError(f"run {run!r} has no attempt {attempt!r} on this node")
            return await part.runner.run(part.planned[attempt], lease, starting)
        finally:
            self._running[run] -= 1

    async def _enter(self, run: str) -> _OpenPart:
        """Returns a run with its weights in the engine; closes those before it."""
        part = self._open.get(run)
        if part is None:
            self._close_ended()
            part = self._open[run] = await self._open_part(run)
        if part.version != self._version:
            record = await self._read(run)
            policy = await fetch_policy(self._parts.context.place, record, self._recipe)
            tokens = getattr(self._run.model, "tokens", None)
            assert tokens is not None  # made by `load_improvement`
            await tokens.load(policy.weights(), part.version)
            self._version = part.version
        return part

    async def _read(self, run: str) -> PublishedPart:
        key = part_key(self._run.name, run)
        data = await read_part(self._parts.context.place, key)
        if data is None:
            raise UserError(f"{key} is missing: {run!r} is not a run of {self._run.name!r}")
        return decode_part(data, key)

    async def _open_part(self, run: str) -> _OpenPart:
        record = await self._read(run)
        require_same_engine(record, self._opened)
        config, recorded = parse_part(record)
        tasks = find_part_tasks(find_tasks(config.tasks), recorded)
        planned = plan_part(config, self._run.agent.name, tasks)
        context = self._parts.context
        folder = context.folder / "parts" / object_name(run)
        store = RunStore.create(folder, run, {})
        bounds: dict[str, Any] = {"budget_usd": None, "budget_calls": None, "concurrency": context.slots}
        resources = self._parts.resources._replace(config=msgspec.structs.replace(config, **bounds))
        services = make_services(store, resources, ActiveContracts((), None))
        services = services._replace(observer=self._parts.services.observer)
        runner = TrialRunner(services, BlobUploader(store, context.place))
        return _OpenPart(record.version, {one.id: one for one in planned}, runner, store, folder)

    def _close_ended(self) -> None:
        for run in [name for name in self._open if not self._running.get(name)]:
            self._open.pop(run).close()
            self._running.pop(run, None)

    def _close_all(self) -> None:
        for part in self._open.values():
            part.close()
        self._open.clear()
