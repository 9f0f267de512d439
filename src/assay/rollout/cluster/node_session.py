"""The nodes of one published run, for as long as a command coordinates it: started, reached and leased to."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.http.bearer import load_token, require_token
from assay.rollout.progress import Progress
from assay.settings import Settings
from assay.store.objects import UrlObjectStore

from .coordinator import Coordinator, CoordinatorConfig, RunEnd
from .local_nodes import DRAIN_S, LocalNodes, NodeOrders
from .node_config import NodeConfig
from .place_records import AnnouncedAgents, Connect, connect_http, has_ended
from .ray_nodes import RayConnection, RayNodes, connect_ray, require_address
from .run_state import ClusterRun

RAY_TIMES = CoordinatorConfig(poll_s=1.0, answer_s=0.95, misses=20)
LOCAL_TIMES = CoordinatorConfig(poll_s=0.5, answer_s=0.45, misses=10, unplaced_s=20.0)
EXTERNAL_TIMES = CoordinatorConfig(poll_s=2.0, answer_s=1.9, misses=15)
MOST_LOCAL_NODES = 1000
"""Processes that one command starts; one node does any number of attempts at once."""


class PlacedRunOptions(NamedTuple):
    """Where the attempts of a run are done."""

    place: str | None
    """URL of the object storage; None: the folder `objects` of the store, for local nodes."""
    nodes: int | str | None
    """Number of local nodes; `ray:...`: nodes on a cluster of Ray; None: nodes that others start with `assay node`."""
    token: str | None = None
    """Token of nodes that others start."""
    times: CoordinatorConfig | None = None
    """Times of the coordinator; None: those that fit the kind of nodes."""


def require_nodes(options: PlacedRunOptions) -> None:
    """Raises `UserError` if nodes, place or token are missing or invalid."""
    if options.nodes is not None:
        if isinstance(options.nodes, str):
            require_address(options.nodes)
            if options.place is None and options.nodes != "ray:local":
                raise UserError(f"--nodes {options.nodes} needs --place, which all machines of the cluster can reach")
        elif not 1 <= options.nodes <= MOST_LOCAL_NODES:
            raise UserError(
                f"--nodes {options.nodes}: give a number from 1 to {MOST_LOCAL_NODES}, `external` or `ray:...`"
            )
        return
    if options.place is None:
        raise UserError("--nodes external needs --place, which all nodes can reach")
    if options.token is None:
        raise UserError(
            "nodes and command need a common token: put a random text of 16 characters or more into a file that only "
            "you can read, and give both --token-file FILE (or $ASSAY_NODE_TOKEN)"
        )
    require_token(options.token, "--token-file or $ASSAY_NODE_TOKEN")


def local_token_file(settings: Settings, run: str) -> Path:
    """Returns the path of the token of a run's local nodes, so that `assay status` can ask them."""
    return settings.store / "nodes" / run / "token"


def ray_address_file(settings: Settings, run: str) -> Path:
    """Returns the path of the address of a run's cluster of Ray, so that `assay status` can ask its nodes."""
    return local_token_file(settings, run).with_name("ray-address")


def remove_leftovers(settings: Settings, run: str) -> None:
    """Removes token and logs of local nodes, unless a node left trials behind."""
    folder = local_token_file(settings, run).parent
    if folder.is_dir() and not any(path.is_dir() for path in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


class PublishedName(NamedTuple):
    """A run that is published in a place."""

    place: UrlObjectStore
    run: str
    id: str
    """Random id of the published run."""


class NodeSession:
    """Open nodes of a run, which one coordinator after the other may lease to. Made by `open_session`."""

    def __init__(
        self,
        published: PublishedName,
        connect: Connect,
        watching: asyncio.Task[None] | None,
        times: CoordinatorConfig,
        progress: Progress,
    ) -> None:
        self._published, self._connect, self._watching = published, connect, watching
        self._times, self._progress = times, progress

    async def coordinate(self, run: ClusterRun, progress: Progress | None = None) -> RunEnd:
        """Leases the attempts of a run until it ends. `progress` replaces that of the session.

        Raises:
            StoreError: A record in the place is damaged.
            EnvironmentFailure: All local nodes have ended.
        """
        place, progress = self._published.place, progress or self._progress
        directory = AnnouncedAgents(place, self._published.run, self._connect, progress.warn)
        coordinator = Coordinator(place, [run], directory, self._times, progress=progress)
        async with contextlib.aclosing(directory):
            await directory.refresh()
            serving = asyncio.create_task(coordinator.serve())
            tasks: set[asyncio.Task[Any]] = {serving, asyncio.create_task(directory.watch(self._times.poll_s))}
            try:
                done, _ = await asyncio.wait(
                    tasks if self._watching is None else {*tasks, self._watching}, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        if serving not in done and await has_ended(place, self._published.run):
            return "complete"  # another command with nodes of its own was faster, and ours left therefore
        for task in sorted(done, key=lambda one: one is not serving):
            ends: dict[str, RunEnd] = task.result()
            if task is serving:
                return ends[run.name]
        raise AssertionError("a watch has ended without an error")


@contextlib.asynccontextmanager
async def open_session(
    published: PublishedName, settings: Settings, options: PlacedRunOptions, progress: Progress
) -> AsyncIterator[NodeSession]:
    """Starts the nodes of a published run, unless others do, and ends them."""
    async with _nodes(published, settings, options, progress) as opened:
        watching = None if opened.watch is None else asyncio.create_task(opened.watch())
        try:
            times = options.times or _default_times(options)
            yield NodeSession(published, opened.connect, watching, times, progress)
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait({watching})
                if not watching.cancelled():
                    watching.exception()  # raised by `coordinate`, or of nodes that nothing needs any more


def _default_times(options: PlacedRunOptions) -> CoordinatorConfig:
    if isinstance(options.nodes, str):
        return RAY_TIMES
    return EXTERNAL_TIMES if options.nodes is None else LOCAL_TIMES


class _OpenNodes(NamedTuple):
    """How a command reaches the nodes of its run."""

    connect: Connect
    watch: Callable[[], Coroutine[Any, Any, None]] | None
    """Starts nodes, and reports and replaces those that end; None where others do."""


@contextlib.asynccontextmanager
async def _nodes(
    published: PublishedName, settings: Settings, options: PlacedRunOptions, progress: Progress
) -> AsyncIterator[_OpenNodes]:
    nodes, (place, run, run_id) = options.nodes, published
    if nodes is None:
        progress.inform(f"waiting for nodes: start each with `assay node {run} --place {place} --token-file FILE`")
        yield _OpenNodes(connect_http(options.token), None)
        return
    config = NodeConfig(runs=(run,), place=str(place), drain_s=DRAIN_S)
    here = msgspec.structs.replace(config, own_layers=True)  # its nodes share the cache of this machine
    store, cache = str(settings.store.absolute()), str(settings.cache.absolute())
    private = local_token_file(settings, run)
    if isinstance(nodes, int):
        token = load_token(private)
        async with LocalNodes(nodes, NodeOrders(here, token, store, cache), private.parent, progress.warn) as local:
            yield _OpenNodes(connect_http(token), local.watch)
        return
    orders = NodeOrders(here, "", store, cache) if nodes == "ray:local" else NodeOrders(config, "", None, None)
    address = ray_address_file(settings, run)
    async with RayConnection(nodes) as connection:
        address.parent.mkdir(parents=True, exist_ok=True)
        address.write_text(connection.address, encoding="utf-8")
        try:
            async with RayNodes(connection, orders, run_id, progress.warn) as placed:
                progress.inform(f"nodes are started on {connection.address}")
                yield _OpenNodes(connect_ray(options.token), placed.watch)
        finally:
            address.unlink(missing_ok=True)
