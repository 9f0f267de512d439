"""Attempts of a recipe's steps and evaluations on nodes, with the weights that the trainer publishes.

All runs of a recipe are parts of one published work, `NAME-SEED-attempts`, so that the same nodes do one after the
other. For each run the weights go to the place as blobs, and a record names them by digest; a node loads them when it
gets the first lease of that run. The attempts of a run are all decided before the next run has leases, so nothing that
counts is sampled from other weights; what a node of a lost lease goes on with is superseded, and says its weights.

Invariant: the runs in the store are those of one machine: same names, seeds, model and version of the weights. So a
training that was begun on nodes can be finished without, and the other way round.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from assay import __version__
from assay.agents.building import build_agent
from assay.errors import StoreError, UserError
from assay.records import digest_bytes, digest_record
from assay.rollout.cluster.commits import Digest, Name
from assay.rollout.cluster.node_session import PlacedRunOptions, require_nodes
from assay.rollout.cluster.objects import answered, object_name
from assay.rollout.cluster.place_records import PublishedRun, has_ended, publish_end, read_published
from assay.rollout.cluster.placed_run import ADDED_KEYS, open_run_place
from assay.rollout.cluster.placed_work import PlacedWork, open_placed_work
from assay.rollout.cluster.recorded_trial import attempt_planner
from assay.rollout.cluster.work_parts import part_key, publish_part, read_part
from assay.rollout.cluster.workloads import PUBLISHED_CONCURRENCY, WORKLOAD
from assay.rollout.config import RunConfig
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress, SpokenTally, Tally
from assay.rollout.run_manifest import match_tasks, read_manifest
from assay.rollout.runs import prepare_run
from assay.settings import Settings
from assay.store import RunStore, final_rows, list_runs
from assay.store.objects import UrlObjectStore
from assay.store.objects.index import blob_entry
from assay.store.objects.interface import ObjectStore
from assay.store.objects.transfer import create_or_find, transfer
from assay.tasks import LoadedTask, find_tasks

from .metrics import OnProgress
from .policy import TrainedPolicy
from .recipe import ImproveRecipe, is_open_family
from .rollouts import TaskSelection

KIND = "improvement"
FileName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")]


class PublishedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`runs/WORK/parts/RUN.json`: a run of a recipe, and the weights that act in it."""

    schema: Literal[1]
    run: Name
    manifest: dict[str, Any]
    """Manifest of the run, as in the store."""
    version: Name
    """Version of the weights."""
    files: dict[FileName, Digest]
    """Checkpoint, by file name; the bytes are blobs of the place."""


def work_name(recipe: ImproveRecipe) -> str:
    """Returns the name under which the attempts of a recipe are published."""
    return f"{recipe.name}-{recipe.seed}-attempts"


def plan_part(config: RunConfig, agent: str, tasks: Sequence[LoadedTask]) -> list[PlannedAttempt]:
    """Plans all attempts of a part; command and nodes use the same."""
    plan = attempt_planner(config, agent)
    return [plan(loaded, number, 0) for number in range(config.attempts) for loaded in tasks]


def find_part_tasks(found: Sequence[LoadedTask], recorded: dict[str, str]) -> tuple[LoadedTask, ...]:
    """Returns the tasks of a part among those of its sources. Raises `UserError` if one is missing or has changed."""
    return tuple(loaded for loaded in match_tasks(recorded, found) if loaded.task.id in recorded)


@contextlib.asynccontextmanager
async def open_placed_attempts(
    recipe: ImproveRecipe, settings: Settings, options: PlacedRunOptions, on_progress: OnProgress
) -> AsyncIterator[PlacedAttempts]:
    """Opens the place for a recipe; lets its nodes leave when the block ends without an error.

    Raises:
        UserError: Nodes or place are missing or invalid, or the recipe needs one machine.
        StoreError: The place is unsuitable.
    """
    require_nodes(options)
    if recipe.budget_calls is not None:
        raise UserError("budget_calls is kept by one process: leave it out, or leave out --nodes and --place")
    if recipe.rollout.service is not None:
        raise UserError("rollout.service makes the attempts already: leave it out, or leave out --nodes and --place")
    place = await open_run_place(options, settings)
    async with contextlib.AsyncExitStack() as stack:
        placed = PlacedAttempts(recipe, settings, options, place, SpokenTally(on_progress), stack)
        yield placed
    await placed.end()


class PlacedAttempts:
    """Has the runs of a recipe done by nodes. Made by `open_placed_attempts`; nodes are started with the first run."""

    def __init__(
        self,
        recipe: ImproveRecipe,
        settings: Settings,
        options: PlacedRunOptions,
        place: UrlObjectStore,
        progress: Progress,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._recipe, self._run, self._settings, self._options = recipe, work_name(recipe), settings, options
        self._place, self._progress, self._stack = place, progress, stack
        self._work: PlacedWork | None = None
        self._files: dict[str, dict[str, str]] = {}
        """Files of the weights that were published last, by version."""

    async def complete(self, config: RunConfig, tasks: TaskSelection, policy: TrainedPolicy) -> None:
        """Has the attempts of a run done that are missing in the store, and copies them there.

        A run that was begun on this machine is left to it.

        Raises:
            UserError: Another command has taken over, or the place holds another record of this run.
            StoreError, EnvironmentFailure: As `PlacedWork.complete`.
        """
        run, root = config.run or "", self._settings.store
        if run in list_runs(root):
            opened = RunStore.open(root, run, write=True)
        else:
            prepared = prepare_run(config, self._settings, self._progress, tasks=tasks.loaded)
            opened = RunStore.create(root, run, prepared.manifest)
        with opened as store:
            config, recorded = read_manifest(store)
            planned = plan_part(config, str(store.manifest()["agent"]), find_part_tasks(tasks.loaded, recorded))
            done = {row.attempt for row in final_rows(store.attempts())}
            if all(one.id in done for one in planned):
                return
            if store.attempts() and await read_part(self._place, part_key(self._run, run)) is None:
                self._progress.inform(f"run {run} was started on this machine, and is finished here")
                return
            await self._publish_part(store, policy)
            work = await self._open_work()
            await work.run_attempts(store, planned, Tally(), config.retries)

    async def end(self) -> None:
        """Lets the nodes of an earlier command leave, where nothing was left to do."""
        if self._work is None and await read_published(self._place, self._run) is not None:
            await publish_end(self._place, self._run)

    async def _open_work(self) -> PlacedWork:
        if self._work is None:
            if await has_ended(self._place, self._run):
                raise UserError(
                    f"{self._place} says that {self._run!r} is complete, and this store lacks attempts of it: choose "
                    "another name, or another place"
                )
            opening = open_placed_work(self._published(), self._settings, self._options, self._progress)
            self._work = await self._stack.enter_async_context(opening)
        return self._work

    def _published(self) -> PublishedRun:
        recipe = msgspec.to_builtins(self._recipe)
        manifest = {
            WORKLOAD: KIND,
            KIND: recipe,
            "assay_version": __version__,
            PUBLISHED_CONCURRENCY: self._recipe.rollout.concurrency,
        }
        total = _count_attempts(self._recipe)
        if total is not None:
            manifest["attempts"] = total
        identity = digest_record([self._run, recipe]).rpartition(":")[2][:32]
        return PublishedRun(1, self._run, identity, str(Path.cwd()), manifest)

    async def _publish_part(self, store: RunStore, policy: TrainedPolicy) -> None:
        version = policy.version
        if version not in self._files:
            self._files = {version: await _publish_weights(self._place, policy)}
        manifest = {key: value for key, value in store.manifest().items() if key not in ADDED_KEYS}
        part = PublishedPart(1, store.run, manifest, version, self._files[version])
        key, data = part_key(self._run, store.run), msgspec.json.encode(part)
        stored = await publish_part(self._place, self._run, store.run, data)
        # All of it: the version is that of the weights alone, and their `config.json` decides what they compute.
        if decode_part(stored, key) != decode_part(data, key):
            raise UserError(
                f"{self._place}: {key} is of other weights, or of another configuration, than this training has after "
                "its checkpoint: leave out --nodes and --place to finish the run on this machine, or choose another "
                "name"
            )


def _count_attempts(recipe: ImproveRecipe) -> int | None:
    """Returns the attempts of all steps and evaluations; None where steps may have fewer tasks than groups."""
    rollout, evaluate = recipe.rollout, recipe.evaluate
    if not all(map(is_open_family, rollout.tasks)):
        return None
    evaluated = {step for step in range(recipe.steps + 1) if recipe.is_evaluated(step)}
    held_out = len(evaluated) * len(find_tasks(evaluate.tasks)) * evaluate.attempts
    return recipe.steps * rollout.groups * rollout.attempts + held_out


def decode_part(data: bytes, key: str) -> PublishedPart:
    """Decodes the record at a key. Raises `StoreError` if it is damaged, or of another run."""
    try:
        part = msgspec.json.decode(data, type=PublishedPart)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{key} is damaged: {exc}") from exc
    if not key.endswith(f"/{object_name(part.run)}.json"):
        raise StoreError(f"{key} is of run {part.run!r}: it was moved")
    return part


async def _publish_weights(place: ObjectStore, policy: TrainedPolicy) -> dict[str, str]:
    """Puts a checkpoint into the place; returns the digests of its files by name."""
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="assay-weights-") as text:
        folder = Path(text)
        await asyncio.to_thread(policy.save, folder)

        async def publish(path: Path) -> None:
            data = await asyncio.to_thread(path.read_bytes)
            digest = await asyncio.to_thread(digest_bytes, data)
            await answered(lambda: create_or_find(place, blob_entry(digest, 0).key, data))
            files[path.name] = digest

        await transfer(sorted(folder.iterdir()), publish)
    return dict(sorted(files.items()))


def agent_of(config: RunConfig, recorded: str) -> Any:
    """Returns the agent of a part, under its recorded name."""
    return build_agent(config.agent, config.agent_options, model=config.model, default_name=recorded)
