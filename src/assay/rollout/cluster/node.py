"""A node as a plain process: one agent over HTTP that runs the trials of one or several runs.

A node is given the place, the names of runs and a token, and reads all else from the place. It keeps trials under
`nodes/RUN/ID` in its store, commits them to the place, and removes the folder when all are there. Runs share its slots
(`NodeAgent`). It leaves when all runs are complete, or when it is told to: then it gives back what it did not start,
and uploads what is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from assay.errors import UserError
from assay.gateway.interface import ReportsLoad
from assay.gateway.metrics import declare_gateway_metrics
from assay.gc_tuning import raised_thresholds
from assay.http.metrics import MetricsRegistry
from assay.http.server import HttpServer
from assay.http.tls import own_certificate
from assay.rollout.schedule.runner import GC_THRESHOLD
from assay.rollout.telemetry.observer import RunObserver
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.settings import Settings
from assay.store import Layout
from assay.store.objects import MissingPlaceError, UrlObjectStore, open_place

from .agent import AgentConfig, NodeAgent, TrialOutcome
from .agent_metrics import declare_agent_metrics
from .http_transport import SERVER_LIMITS, AgentApp, NodeListener, open_listener
from .node_config import NodeConfig
from .node_runs import OpenRun, load_published, open_run
from .place_records import AgentAnnouncement, PublishedRun, announce_agent, has_ended, read_published
from .placement import NodeResources
from .shared_layers import SharedLayers
from .transport import Lease
from .workloads import NodeContext, NodeRun, concurrency_of

_log = logging.getLogger(__name__)
END_CHECK_S = 10.0
"""From one look for the end of the run to the next."""
RUN_CHECK_S = 2.0
LINGER_S = 5.0
"""A node that was told to leave answers polls for so long, until its last ends are received."""

Reason = Literal["told", "ended", "alone"]
"""`told`: by a signal. `ended`: the runs are complete. `alone`: the command that started the node is gone."""


class LeaveRequest:
    """Tells a node to leave. The reason is the first that was given."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.event = asyncio.Event()

    def set(self, reason: Reason) -> None:
        self.reason = self.reason or reason
        self.event.set()


async def serve_node(
    config: NodeConfig,
    token: str,
    settings: Settings,
    leave: LeaveRequest,
    on_open: Callable[[AgentAnnouncement], None] = lambda _: None,
    address: str | None = None,
) -> int:
    """Runs trials until all runs are complete or `leave` is set.

    Args:
        config: The node.
        token: What callers show.
        settings: Where the node's store and cache are.
        leave: Tells the node to leave.
        on_open: Gets the announcement of the node for its first run, with the URL at which it listens.
        address: Is announced instead of that URL.

    Returns:
        The number of trials that could not be uploaded in time; they stay in the node's folder.

    Raises:
        UserError: The configuration cannot work here, or a task has changed since a run began.
    """
    settings = msgspec.structs.replace(settings, store=settings.store.absolute(), cache=settings.cache.absolute())
    if config.cache_gib is not None:
        settings = msgspec.structs.replace(settings, cache_gib=config.cache_gib)
    for run in config.runs:
        Layout(settings.store, run)  # a name that no run can have is not waited for
    files = [None if name is None else Path(name).absolute() for name in (config.tls_cert, config.tls_key)]
    listener = open_listener(config.listen, *files)
    certificate = None if files[0] is None else own_certificate(files[0].read_text(encoding="ascii", errors="ignore"))
    name = f"{config.name or socket.gethostname()}-{secrets.token_hex(4)}"
    url = announced_url(config, listener)
    announcement = AgentAnnouncement(1, config.runs[0], name, address or url, 1, (), certificate)

    def opened(announced: AgentAnnouncement) -> None:
        on_open(msgspec.structs.replace(announced, url=url))

    with contextlib.closing(listener.socket), raised_thresholds(GC_THRESHOLD):
        _require_readable(announcement)
        began = time.monotonic()
        place = await _open_place(config, leave)
        if place is None:
            return 0
        config = msgspec.structs.replace(config, wait_s=max(0.0, config.wait_s - (time.monotonic() - began)))
        return await _Node(config, place, settings, announcement, leave).serve(token, listener, opened)


async def _open_place(config: NodeConfig, leave: LeaveRequest) -> UrlObjectStore | None:
    """Opens the place; waits for a folder that the command makes. Returns None if the node is told to leave before."""
    deadline, is_told = time.monotonic() + config.wait_s, False
    while not leave.event.is_set():
        try:
            return open_place(config.place)
        except MissingPlaceError as exc:
            if time.monotonic() > deadline:
                raise
            if not is_told:
                is_told = True
                _log.warning("%s; waiting for the command that makes it", exc)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(leave.event.wait(), RUN_CHECK_S)
    return None


def _require_readable(announcement: AgentAnnouncement) -> None:
    """Raises `UserError` for an announcement that commands would refuse to read."""
    try:
        msgspec.convert(msgspec.to_builtins(announcement), AgentAnnouncement)
    except msgspec.ValidationError as exc:
        raise UserError(
            f"no command can read this node's announcement ({exc}): check --advertise, --name, --tls-cert"
        ) from None


class _Node:
    def __init__(
        self,
        config: NodeConfig,
        place: UrlObjectStore,
        settings: Settings,
        announcement: AgentAnnouncement,
        leave: LeaveRequest,
    ) -> None:
        self._config, self._place, self._settings = config, place, settings
        self._layers = None if config.own_layers else SharedLayers(place, settings.cache)
        self._announcement, self._leave = announcement, leave
        self._metrics = RunMetrics(MetricsRegistry())
        self._runs: dict[str, OpenRun] = {}
        self._agent: NodeAgent | None = None
        self._is_open = False
        self._folder: str | None = None
        """Where the runs were started."""

    async def serve(self, token: str, listener: NodeListener, on_open: Callable[[AgentAnnouncement], None]) -> int:
        """Serves until all runs have ended, or the node is to leave; raises what ended its agent before."""
        first = await self._find_first()
        if first is None:
            return 0
        agent = self._agent = self._make_agent(first)
        serving = asyncio.create_task(agent.serve())
        running = asyncio.create_task(self._serve_runs(agent, on_open))
        leaving = asyncio.create_task(self._leave.event.wait())
        tasks = {serving, running, leaving}
        try:
            async with HttpServer(AgentApp(agent, token, self._metrics.registry), SERVER_LIMITS) as server:
                await server.listen(listener.socket, listener.tls)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if not serving.done() and (not running.done() or running.exception() is None):
                    await agent.drain(self._config.drain_s)
                    await self._linger(agent)
        finally:
            for some in ({serving, leaving}, {running}):  # trials end before what they use is closed
                for task in some:
                    task.cancel()
                await asyncio.wait(some)
        for task in (serving, running):
            if not task.cancelled():
                task.result()
        return agent.leases

    async def _find_first(self) -> PublishedRun | None:
        """Returns the first run that is published; None if the node is told to leave, or all runs are over."""
        waiting = {asyncio.create_task(self._wait_for_run(run)) for run in self._config.runs}
        try:
            for finished in asyncio.as_completed(waiting):
                published = await finished
                if published is not None:
                    return published
            return None
        finally:
            for task in waiting:
                task.cancel()

    async def _wait_for_run(self, run: str) -> PublishedRun | None:
        """Returns a published run; None if the node is told to leave, or the run is over. Raises `UserError`."""
        config, leave = self._config, self._leave
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(config.wait_s + RUN_CHECK_S):
                while not leave.event.is_set():
                    published = await read_published(self._place, run)
                    if published is not None:
                        return None if await has_ended(self._place, run) else published
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(leave.event.wait(), RUN_CHECK_S)
                return None
        raise UserError(
            f"{self._place} holds no run {run!r} after {config.wait_s:g} s: start it with `assay run ... --run "
            f"{run} --place {self._place} --nodes external`, or wait longer with --wait-s"
        )

    def _make_agent(self, first: PublishedRun) -> NodeAgent:
        slots = self._config.slots or concurrency_of(first)
        self._announcement = msgspec.structs.replace(self._announcement, slots=slots)
        bounds = AgentConfig(self._announcement.agent, slots=slots)
        agent = NodeAgent(bounds, self._place, self._run_trial, self._resources, observers=self._observer)
        declare_agent_metrics(self._metrics.registry, agent)
        return agent

    async def _run_trial(self, lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        if lease.run not in self._runs:
            raise UserError(f"run {lease.run!r} is not on this node")
        return await self._runs[lease.run].trials(lease, starting)

    def _resources(self) -> NodeResources:
        isolation = tuple(dict.fromkeys(name for one in self._runs.values() for name in one.isolation))
        return NodeResources(isolation, layers=frozenset() if self._layers is None else self._layers.available())

    def _observer(self, run: str) -> RunObserver | None:
        return self._runs[run].observer if run in self._runs else None

    async def _serve_runs(self, agent: NodeAgent, on_open: Callable[[AgentAnnouncement], None]) -> None:
        """Serves each run from its beginning to its end. Raises the first error."""
        try:
            async with asyncio.TaskGroup() as group:
                for run in self._config.runs:
                    group.create_task(self._serve_run(run, agent, on_open))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self._leave.set("ended")

    async def _serve_run(self, run: str, agent: NodeAgent, on_open: Callable[[AgentAnnouncement], None]) -> None:
        published = await self._wait_for_run(run)
        if published is None:
            return
        self._folder = self._folder or published.folder
        if published.folder != self._folder:
            raise UserError(
                f"run {run!r} was started in {published.folder}, another run of this node in {self._folder}: start a "
                "node for each, because relative paths start there"
            )
        folder = self._settings.store / "nodes" / run / self._announcement.agent
        try:
            async with contextlib.AsyncExitStack() as stack:
                slots, backend = self._announcement.slots, self._config.backend
                context = NodeContext(self._place, self._settings, slots, folder, stack, self._layers, backend)
                loaded = await load_published(published, context)
                async with open_run(loaded, context, self._announcement.agent, self._metrics) as opened:
                    self._runs[run] = opened
                    self._observe_load(opened, agent, loaded)
                    announced = msgspec.structs.replace(self._announcement, run=run, isolation=opened.isolation)
                    await announce_agent(self._place, announced)
                    if not self._is_open:
                        self._is_open = True
                        on_open(announced)
                    await self._wait_for_end(run)
                    await agent.drain_run(run, self._config.drain_s)
                    del self._runs[run]
        finally:
            if not agent.leases_of(run):
                shutil.rmtree(folder, ignore_errors=True)

    def _observe_load(self, opened: OpenRun, agent: NodeAgent, loaded: NodeRun) -> None:
        """Lets the model servers of a run tell the agent of their load."""
        for access in (opened.resources.model, opened.resources.user_model):
            if access is not None and isinstance(access.backend, ReportsLoad):
                access.backend.report_load(agent.listen())
        if len(self._config.runs) == 1 and opened.resources.model is not None:  # names of metrics are declared once
            declare_gateway_metrics(self._metrics.registry, opened.resources.model.gateway_handle.load)

    async def _wait_for_end(self, run: str) -> None:
        while True:
            if await has_ended(self._place, run):
                return
            await asyncio.sleep(END_CHECK_S)

    async def _linger(self, agent: NodeAgent) -> None:
        """Lets a coordinator that is still there poll the last ends."""
        if self._leave.reason == "told":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(agent.wait_received(), LINGER_S)


def announced_url(config: NodeConfig, listener: NodeListener) -> str:
    """Returns the URL under which a command reaches the node."""
    host = config.advertise or listener.host
    if config.advertise is None and host in ("0.0.0.0", "::"):
        host = socket.getfqdn()
        if host.partition(".")[0] == "localhost":  # as some /etc/hosts say, which is true for this machine alone
            host = socket.gethostname()
    scheme = "http" if listener.tls is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.port}"
