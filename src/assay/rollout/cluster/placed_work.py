"""Work that a command plans itself, phase by phase, and nodes do: admission, re-verification, replay, training.

The command publishes the work once, with its kind (`workloads`), and then has lists of attempts done, one after the
other, by the same nodes. The place decides which attempts are done, so a repeated command does what is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import StoreError, UserError
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress
from assay.rollout.run_manifest import PLACE
from assay.settings import Settings
from assay.store import RunStore
from assay.store.objects import UrlObjectStore

from .commits import list_finals
from .fetch_trials import PlacedNames, fetch_trials
from .node_session import NodeSession, PlacedRunOptions, PublishedName, open_session, remove_leftovers, require_nodes
from .objects import object_name
from .place_records import PublishedRun, new_run_id, publish_end, publish_run, require_unused
from .placed_run import ADDED_KEYS, PATIENCE_S, RunPlacement, open_run_place, open_shared, resolve_place
from .recorded_trial import task_requirements
from .run_state import listed_run
from .workloads import PUBLISHED_CONCURRENCY, WORKLOAD


class PlacedWork:
    """Published work. Made by `open_placed_work`; nodes are started with the first attempt that is missing."""

    def __init__(
        self,
        published: PublishedName,
        settings: Settings,
        options: PlacedRunOptions,
        progress: Progress,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._published, self._settings, self._options, self._progress = published, settings, options, progress
        self._stack = stack
        self._session: NodeSession | None = None

    @property
    def objects(self) -> UrlObjectStore:
        return self._published.place

    @property
    def run(self) -> str:
        return self._published.run

    async def complete(self, attempts: Sequence[PlannedAttempt], progress: Progress, retries: int = 0) -> None:
        """Has the missing ones of these attempts done.

        Raises:
            UserError: Another command has taken over the work.
            StoreError, EnvironmentFailure: As `NodeSession.coordinate`.
        """
        finals = await list_finals(self.objects, self.run, PATIENCE_S)
        if all(object_name(one.id) in finals for one in attempts):
            progress.begin(total=len(attempts), done=len(attempts))
            return
        if self._session is None:
            opening = open_session(self._published, self._settings, self._options, self._progress)
            self._session = await self._stack.enter_async_context(opening)
        listed = listed_run(self.run, attempts, retries, task_requirements())
        if await self._session.coordinate(listed, progress) != "complete":
            raise UserError(f"another command has taken over run {self.run!r}, and goes on with it")

    async def run_attempts(
        self, store: RunStore, attempts: Sequence[PlannedAttempt], progress: Progress, retries: int
    ) -> None:
        """Has attempts done, and copies their trials into a store: that of the work, or of a run that is a part of it.
        Raises as `complete`."""
        names = PlacedNames.of_part(self.run, store.run)
        await self.complete([names.of(one) for one in attempts], progress, retries)
        fetched = await fetch_trials(store, self.objects, attempts, names)
        if fetched.finals != len(attempts):
            raise StoreError(f"{self.objects}: {fetched.finals} of {len(attempts)} finals of {self.run} are there")


@contextlib.asynccontextmanager
async def open_placed_work(
    published: PublishedRun, settings: Settings, options: PlacedRunOptions, progress: Progress
) -> AsyncIterator[PlacedWork]:
    """Publishes work, or finds it; lets its nodes leave when the block ends without an error.

    Raises:
        UserError: Nodes or place are missing or invalid, or the place holds other work of that name.
        StoreError: The place is unsuitable.
    """
    place = await open_run_place(options, settings)
    await publish_run(place, published)
    async with contextlib.AsyncExitStack() as stack:
        yield PlacedWork(PublishedName(place, published.run, published.id), settings, options, progress, stack)
        await publish_end(place, published.run)
    remove_leftovers(settings, published.run)


async def label_manifest(
    run: str, manifest: dict[str, Any], settings: Settings, options: PlacedRunOptions | None
) -> dict[str, Any]:
    """Returns a manifest of a new run with its place, by which it is resumed; unchanged without nodes.

    Raises:
        UserError: Nodes or place are missing or invalid, or the place holds a run of that name.
    """
    if options is None:
        return manifest
    require_nodes(options)
    place = open_shared(resolve_place(options.place, settings))
    await require_unused(place, run)
    return {**manifest, PLACE: msgspec.to_builtins(RunPlacement(str(place), new_run_id(), options.nodes))}


def published_of(store: RunStore, label: RunPlacement, workload: str, concurrency: int) -> PublishedRun:
    """Returns what is published of a run that `label_manifest` labelled, for nodes that run so many attempts at
    once."""
    shared = {key: value for key, value in store.manifest().items() if key not in (PLACE, *ADDED_KEYS)}
    return PublishedRun(
        1, store.run, label.id, str(Path.cwd()), {**shared, WORKLOAD: workload, PUBLISHED_CONCURRENCY: concurrency}
    )
