"""Runs whose attempts are done by nodes: starts and resumes them, and makes the finals an ordinary run of the store.

The coordinator runs in the process of the command. The run's manifest names the place, so that `assay resume RUN` finds
it; a store without the run reads its manifest from the place. Attempts are counted from the place alone: whatever died,
a resumed run does exactly what is missing there.

Not sent to nodes: what no file or name says (Python objects), and what one process decides from whole trajectories
(early stopping, forks). Such a run is refused before anything starts.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from assay.errors import BudgetExceededError, StoreError, UserError
from assay.gc_tuning import raised_thresholds
from assay.rollout.config import RunConfig
from assay.rollout.limits.run_budget import BudgetLimits
from assay.rollout.progress import Progress
from assay.rollout.run_inputs import find_recorded_tasks
from assay.rollout.run_manifest import PLACE, match_tasks, read_manifest
from assay.rollout.runs import RunParts, RunSummary, load_run_contracts, prepare_run
from assay.rollout.schedule.policies import policy_named
from assay.rollout.schedule.rounds import score_of
from assay.rollout.schedule.runner import GC_THRESHOLD
from assay.settings import Settings
from assay.store import RunStore, list_runs
from assay.store.objects import UrlObjectStore, open_place, require_create_only

from .commits import list_finals
from .coordinator import RunEnd
from .epochs import read_rounds
from .fetch_trials import fetch_trials
from .node_session import PlacedRunOptions, PublishedName, open_session, remove_leftovers, require_nodes
from .objects import run_prefix
from .place_records import (
    PublishedRun,
    new_run_id,
    publish_end,
    publish_run,
    read_published,
    require_unchanged,
    require_unused,
)
from .recorded_trial import cluster_run
from .run_state import ClusterRun, LeaseTimes, RunState
from .workloads import WORKLOAD

ADDED_KEYS = ("run", "schema_version", "created")
"""Keys of a manifest that its store adds."""
PATIENCE_S = 30.0
"""A place that does not answer for so long ends the command before it starts."""


class RunPlacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key `place` of a run's manifest."""

    url: str
    id: str
    """Id of the published run."""
    nodes: int | str | None
    """As in `PlacedRunOptions`."""


async def open_run_place(options: PlacedRunOptions, settings: Settings) -> UrlObjectStore:
    """Opens the place of work on nodes.

    Raises:
        UserError: Nodes or place are missing or invalid.
        StoreError: The place is unsuitable: it overwrites objects.
    """
    require_nodes(options)
    place = open_shared(resolve_place(options.place, settings))
    await require_create_only(place)
    return place


def resolve_place(place: str | None, settings: Settings) -> str:
    """Returns the URL of a place; by default the folder `objects` of the store."""
    return place or (settings.store.absolute() / "objects").as_uri()


async def start_placed_run(
    config: RunConfig, settings: Settings, progress: Progress, options: PlacedRunOptions, parts: RunParts | None = None
) -> RunSummary:
    """Runs a configuration on nodes to its end.

    Raises:
        UserError: The configuration cannot be sent to nodes, or cannot work; nothing was started.
        StoreError: The place is unsuitable, or a record there is damaged.
        EnvironmentFailure: All local nodes have ended.
        BudgetExceededError: The budget is used up.
    """
    require_sendable(config, parts or RunParts())
    require_nodes(options)
    prepared = prepare_run(config, settings, progress, parts=parts)
    run = cluster_run(prepared.name, prepared.config, prepared.tasks, prepared.agent.name)
    place = await open_run_place(options, settings)
    published = PublishedRun(1, run.name, new_run_id(), str(Path.cwd()), prepared.manifest)
    await require_unused(place, run.name)
    label = RunPlacement(str(place), published.id, options.nodes)
    manifest = {**prepared.manifest, PLACE: msgspec.to_builtins(label)}
    with RunStore.create(settings.store, run.name, manifest) as store:
        await publish_run(place, published)
        await _PlacedRun(store, place, run, settings, options, progress).complete()
    return RunSummary(run.name, settings.store)


async def resume_placed_run(
    name: str,
    settings: Settings,
    progress: Progress,
    options: PlacedRunOptions | None = None,
    budget: BudgetLimits | None = None,
) -> RunSummary:
    """Completes a run on nodes.

    Args:
        name: The run.
        settings: Where the store is. A store without the run gets it from `options.place`.
        progress: Receives progress.
        options: Replace what the run's manifest says.
        budget: Replaces the budget of the run's configuration.

    Raises:
        UserError: A task or a contract has changed since the run began, or the place holds another run of that name, or
            not this one, which was begun in another place.
        StoreError, EnvironmentFailure, BudgetExceededError: As `start_placed_run`.
    """
    with await _open_store(name, settings, options) as store:
        label = read_label(store)
        if label is None:
            raise UserError(f"run {name!r} has no place: finish it with `assay resume {name}` without --place")
        manifest = store.manifest()
        config, recorded = read_manifest(store)
        if budget is not None:
            config = msgspec.structs.replace(config, budget_usd=budget.cost_usd, budget_calls=budget.calls)
        tasks = match_tasks(recorded, find_recorded_tasks(config), config.disturb)
        if {c.name: c.digest for c in load_run_contracts(config, tasks)} != manifest.get("contracts", {}):
            raise UserError("the contracts of the run have changed since it began: put them back, or start a new run")
        options = options or PlacedRunOptions(label.url, label.nodes)
        require_nodes(options)
        place = open_shared(options.place or label.url)
        await list_finals(place, name, PATIENCE_S)
        if str(place) != label.url and await read_published(place, name) is None:
            raise UserError(f"{place} holds no run {name!r}, whose attempts are in {label.url}: leave out --place")
        shared = {key: value for key, value in manifest.items() if key not in (PLACE, *ADDED_KEYS)}
        published = PublishedRun(1, name, label.id, str(Path.cwd()), shared)
        require_unchanged(place, published, await publish_run(place, published))
        run = cluster_run(name, config, tasks, str(manifest["agent"]))
        await _PlacedRun(store, place, run, settings, options, progress).complete()
    return RunSummary(name, settings.store)


def open_shared(url: str) -> UrlObjectStore:
    """Opens a place that other processes see."""
    if url.lower().startswith("memory:"):
        raise UserError("memory:// is for tests: nodes do not see it; name a bucket or file:///FOLDER")
    return open_place(url, create=True)


async def _open_store(name: str, settings: Settings, options: PlacedRunOptions | None) -> RunStore:
    """Opens the run for writing, or creates it from the place."""
    if name in list_runs(settings.store):
        return RunStore.open(settings.store, name, write=True)
    if options is None or options.place is None:
        raise UserError(f"no run is called {name!r} in {settings.store}: name the place that holds it with --place")
    place = open_place(options.place)
    await list_finals(place, name, PATIENCE_S)
    published = await read_published(place, name)
    if published is None:
        raise UserError(f"{place} holds no run {name!r}: start it with `assay run`")
    if WORKLOAD in published.manifest:
        raise UserError(
            f"{name!r} is work of the kind {published.manifest[WORKLOAD]!r}: the command that began it finishes it"
        )
    label = RunPlacement(str(place), published.id, options.nodes)
    return RunStore.create(settings.store, name, {**published.manifest, PLACE: msgspec.to_builtins(label)})


def read_label(store: RunStore) -> RunPlacement | None:
    """Returns the place of a run; None for a run of one machine. Raises `StoreError` if the manifest is damaged."""
    return require_label(store) if PLACE in store.manifest() else None


def require_label(store: RunStore) -> RunPlacement:
    """Returns the place of a run on nodes. Raises `StoreError` if the manifest is damaged."""
    try:
        return msgspec.convert(store.manifest().get(PLACE), RunPlacement)
    except msgspec.ValidationError as exc:
        raise StoreError(f"the manifest of run {store.run!r} is damaged: place: {exc}") from exc


def find_label(run: str, settings: Settings) -> RunPlacement | None:
    """Returns the place of a run of the store; None for an unknown run, or one of one machine."""
    if run not in list_runs(settings.store):
        return None
    with RunStore.open(settings.store, run) as store:
        return read_label(store)


def find_place(run: str, settings: Settings) -> str:
    """Returns the URL of the place that a run's manifest names, or of the store's own place if that holds the run.
    Raises `UserError` without one."""
    label = find_label(run, settings)
    if label is not None:
        return label.url
    default = settings.store.absolute() / "objects"
    if (default / run_prefix(run) / "run.json").is_file():  # work of a command that leaves no run of this name
        return default.as_uri()
    raise UserError(f"{settings.store} has no run {run!r} on nodes: name its place with --place")


def require_sendable(config: RunConfig, parts: RunParts) -> None:
    """Raises `UserError` if a configuration cannot be carried out by other processes."""
    remedy = "leave out --nodes and --place to run it on this machine"
    if parts.objects or parts.checks.checks:
        names = ", ".join(parts.objects) or "checks"
        raise UserError(
            f"nodes cannot be given Python objects ({names}): put the agent into a file and name it as path.py:Class, "
            f"or {remedy}"
        )
    if config.early_stop is not None:
        raise UserError(f"--early-stop is fitted to whole trajectories in one process: leave it out, or {remedy}")
    if policy_named(config.allocate, config.allocate_options).wants_paths:
        raise UserError(
            f"--allocate {config.allocate} forks attempts, whose states stay on one machine: choose another, or "
            f"{remedy}"
        )
    for model in (config.model, config.user_model):
        if model is not None and model.startswith("replay:"):
            raise UserError(f"--model {model} reads this machine's store, which nodes do not have: {remedy}")


class _PlacedRun:
    """A run that is open for writing in the store and published in the place."""

    def __init__(
        self,
        store: RunStore,
        place: UrlObjectStore,
        run: ClusterRun,
        settings: Settings,
        options: PlacedRunOptions,
        progress: Progress,
    ) -> None:
        self._store, self._place, self._run = store, place, run
        self._settings, self._options, self._progress = settings, options, progress

    async def complete(self) -> None:
        """Runs what is missing, and fetches all trials."""
        with raised_thresholds(GC_THRESHOLD):
            await self._complete()

    async def _complete(self) -> None:
        self._progress.opened(self._run.name, self._store.attempts())
        self._progress.bound(self._run.budget)
        finals = await list_finals(self._place, self._run.name, PATIENCE_S)
        # If a round is missing, it is decided again.
        if len(finals) < self._run.total or (await self._read_state()).left:
            end = await self._coordinate()
        else:
            end = "complete"
        if end == "taken over":
            raise UserError(f"another command has taken over run {self._run.name!r}, and goes on with it")
        await self._fetch(is_complete=end == "complete")
        if end == "out of budget":
            raise BudgetExceededError(f"the budget of run {self._run.name} is used up")
        await publish_end(self._place, self._run.name)
        remove_leftovers(self._settings, self._run.name)

    async def _coordinate(self) -> RunEnd:
        label = read_label(self._store)
        assert label is not None  # both entries wrote or read it
        published = PublishedName(self._place, self._run.name, label.id)
        async with open_session(published, self._settings, self._options, self._progress) as session:
            return await session.coordinate(self._run)

    async def _fetch(self, *, is_complete: bool) -> None:
        state = await self._read_state()
        fetched = await fetch_trials(self._store, self._place, state.attempts())
        if is_complete and fetched.finals != self._run.total:
            raise StoreError(
                f"{self._place}: {fetched.finals} of {self._run.total} finals of {self._run.name} are there: others "
                "were removed; restore them from a copy, or start a new run"
            )
        self._require_same_scores(state)
        if fetched.kept_apart:
            self._progress.inform(
                f"{fetched.kept_apart} superseded or interrupted trials stay in {self._place}, and do not count"
            )

    async def _read_state(self) -> RunState:
        """Returns the state after the rounds that the place holds."""
        state = RunState(self._run, 0, LeaseTimes())
        state.restore(await read_rounds(self._place, self._run.name), set())
        return state

    def _require_same_scores(self, state: RunState) -> None:
        """Raises `StoreError` if a round was decided on another score than that of an attempt's final."""
        past = list(state.past_scores())
        if not past:
            return
        scores = {row.attempt: score_of(row) for row in self._store.attempts() if row.final}
        for attempt, stated in past:
            if attempt in scores and scores[attempt] != stated:
                raise StoreError(
                    f"{self._place}: a round of {self._run.name} was decided on the score {stated} of {attempt}, whose "
                    f"final has {scores[attempt]}: the rounds were changed, and with them the attempts that tasks got"
                )
