"""A node as a plain process: an agent over HTTP that runs the trials of one run, with the code of an ordinary run.

A node is given the place, the name of the run and a token, and reads all else from the place. It keeps trials under
`nodes/RUN/ID` in its store, commits them to the place, and removes the folder when all are there. It leaves when the
run is complete, or when it is told to: then it gives back what it did not start, and uploads what is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay import __version__
from assay.agents.building import build_agent
from assay.agents.interface import Agent
from assay.analysis.contracts import Contract
from assay.errors import UserError
from assay.gateway.metrics import declare_gateway_metrics
from assay.http.metrics import MetricsRegistry
from assay.http.server import HttpServer
from assay.rollout.attempt.trial import Services
from assay.rollout.config import RunConfig
from assay.rollout.limits.contract_guards import ActiveContracts
from assay.rollout.run_inputs import find_recorded_tasks
from assay.rollout.run_manifest import parse_manifest, require_same_tasks
from assay.rollout.runs import load_run_contracts, make_services, open_resources
from assay.rollout.telemetry.opening import TraceIdentity, open_telemetry
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.settings import Settings
from assay.store import RunStore
from assay.store.objects import open_place
from assay.store.objects.interface import ObjectStore
from assay.tasks import LoadedTask

from .agent import AgentConfig, NodeAgent
from .agent_metrics import declare_agent_metrics
from .http_transport import SERVER_LIMITS, AgentApp, NodeListener, open_listener
from .node_config import NodeConfig
from .place_records import AgentAnnouncement, PublishedRun, announce_agent, has_ended, read_published
from .placement import NodeResources
from .recorded_trial import LocalTrials, attempt_planner
from .shared_blobs import BlobUploader

_log = logging.getLogger(__name__)
END_CHECK_S = 10.0
"""From one look for the end of the run to the next."""
RUN_CHECK_S = 2.0
LINGER_S = 5.0
"""A node that was told to leave answers polls for so long, until its last ends are received."""

Reason = Literal["told", "ended", "alone"]
"""`told`: by a signal. `ended`: the run is complete. `alone`: the command that started the node is gone."""


class NodeRun(NamedTuple):
    """A run as a node carries it out."""

    name: str
    config: RunConfig
    """Without its budget, which the coordinator keeps."""
    tasks: Sequence[LoadedTask]
    agent: Agent
    contracts: tuple[Contract, ...]
    id: str = ""
    """Random id of the published run."""


class _OpenNode(NamedTuple):
    config: NodeConfig
    place: ObjectStore
    agent: NodeAgent
    listener: NodeListener
    announcement: AgentAnnouncement
    address: str | None
    metrics: MetricsRegistry


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
    """Runs trials until the run is complete or `leave` is set.

    Args:
        config: The node.
        token: What callers show.
        settings: Where the node's store and cache are.
        leave: Tells the node to leave.
        on_open: Gets the announcement of the node, with the URL at which it listens.
        address: Is announced instead of that URL.

    Returns:
        The number of trials that could not be uploaded in time; they stay in the node's folder.

    Raises:
        UserError: The configuration cannot work here, or a task has changed since the run began.
    """
    place = open_place(config.place)
    files = [None if name is None else Path(name).absolute() for name in (config.tls_cert, config.tls_key)]
    settings = msgspec.structs.replace(settings, store=settings.store.absolute(), cache=settings.cache.absolute())
    published = await _wait_for_run(place, config, leave)
    if published is None:
        return 0
    run = load_run(published, config.slots)
    listener = open_listener(config.listen, *files)
    name = f"{config.name or socket.gethostname()}-{secrets.token_hex(4)}"
    root = settings.store / "nodes" / config.run / name
    certificate = None if files[0] is None else files[0].read_text(encoding="ascii", errors="ignore")
    metrics = RunMetrics(MetricsRegistry())
    identity = TraceIdentity(name, run.id)
    with contextlib.closing(listener.socket):
        async with (
            open_telemetry(run.name, _log.warning, metrics, identity, otel=run.config.otel) as observer,
            open_resources(run.config, settings, run.tasks, run.agent) as resources,
        ):
            with RunStore.create(root, config.run, {}) as store:
                backend = () if resources.preparer is None else (resources.preparer.backend.name,)
                announcement = AgentAnnouncement(
                    1, run.name, name, _url(config, listener), run.config.concurrency, backend, certificate
                )
                services = make_services(store, resources, ActiveContracts(run.contracts, None))
                agent = _make_agent(announcement, run, services._replace(observer=observer), place)
                declare_agent_metrics(metrics.registry, agent)
                if resources.model is not None:
                    declare_gateway_metrics(metrics.registry, resources.model.gateway_handle.load)
                node = _OpenNode(config, place, agent, listener, announcement, address, metrics.registry)
                await _serve(node, token, leave, on_open)
    if not agent.leases:
        shutil.rmtree(root, ignore_errors=True)
    return agent.leases


async def _wait_for_run(place: ObjectStore, config: NodeConfig, leave: LeaveRequest) -> PublishedRun | None:
    """Returns the published run; None if the node is told to leave, or the run is over. Raises `UserError`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(config.wait_s + RUN_CHECK_S):
            while not leave.event.is_set():
                published = await read_published(place, config.run)
                if published is not None:
                    return None if await has_ended(place, config.run) else published
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(leave.event.wait(), RUN_CHECK_S)
            return None
    raise UserError(
        f"{place} holds no run {config.run!r} after {config.wait_s:g} s: start it with `assay run ... --run "
        f"{config.run} --place {place} --nodes external`, or wait longer with --wait-s"
    )


def load_run(published: PublishedRun, slots: int | None) -> NodeRun:
    """Loads what a published run names, from the folder where it was started, if it exists here.

    Raises:
        UserError: This is another version of Assay, or a task or a contract is missing or differs.
    """
    manifest = published.manifest
    try:
        config, recorded = parse_manifest(manifest)
    except (KeyError, msgspec.ValidationError) as exc:
        raise UserError(
            f"run {published.run!r} does not say how it was made ({exc}): it is of another version"
        ) from exc
    if manifest.get("assay_version") != __version__:
        raise UserError(
            f"run {published.run!r} was started by Assay {manifest.get('assay_version')}, this node has {__version__}: "
            "install the same version on all machines"
        )
    if Path(published.folder).is_dir():
        os.chdir(published.folder)
    try:
        tasks = find_recorded_tasks(config)
    except UserError as exc:
        raise UserError(
            f"{exc}\n(nodes read tasks from the paths of the machine where the run was started, in {published.folder}: "
            "mount them at the same paths)"
        ) from exc
    require_same_tasks(recorded, tasks)
    contracts = load_run_contracts(config, tasks)
    if {c.name: c.digest for c in contracts} != manifest.get("contracts", {}):
        raise UserError(f"the contracts of run {published.run!r} differ on this node: copy the files again")
    agent = build_agent(config.agent, config.agent_options, model=config.model, default_name=manifest.get("agent"))
    bounds: dict[str, Any] = {"budget_usd": None, "budget_calls": None, "concurrency": slots or config.concurrency}
    return NodeRun(published.run, msgspec.structs.replace(config, **bounds), tasks, agent, contracts, published.id)


def _make_agent(announcement: AgentAnnouncement, run: NodeRun, services: Services, place: ObjectStore) -> NodeAgent:
    planner, blobs = attempt_planner(run.config, run.agent.name), BlobUploader(services.store, place)
    trials = LocalTrials(services, run.tasks, planner, blobs)
    node = NodeResources(announcement.isolation)
    bounds = AgentConfig(announcement.agent, slots=announcement.slots)
    return NodeAgent(bounds, place, trials, lambda: node, observer=services.observer)


def _url(config: NodeConfig, listener: NodeListener) -> str:
    host = config.advertise or listener.host
    if config.advertise is None and host in ("0.0.0.0", "::"):
        host = socket.getfqdn()
    scheme = "http" if listener.tls is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.port}"


async def _serve(
    node: _OpenNode, token: str, leave: LeaveRequest, on_open: Callable[[AgentAnnouncement], None]
) -> None:
    """Serves until the node is to leave; raises what ended its agent before."""
    serving = asyncio.create_task(node.agent.serve())
    leaving = asyncio.create_task(leave.event.wait())
    watching = asyncio.create_task(_watch_end(node.place, node.announcement.run, leave))
    try:
        async with HttpServer(AgentApp(node.agent, token, node.metrics), SERVER_LIMITS) as server:
            await server.listen(node.listener.socket, node.listener.tls)
            announced = msgspec.structs.replace(node.announcement, url=node.address or node.announcement.url)
            await announce_agent(node.place, announced)
            on_open(node.announcement)
            await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                await node.agent.drain(node.config.drain_s)
                await _linger(node.agent, leave)
    finally:
        for task in (serving, leaving, watching):
            task.cancel()
        await asyncio.wait({serving, leaving, watching})
    if not serving.cancelled():
        serving.result()


async def _linger(agent: NodeAgent, leave: LeaveRequest) -> None:
    """Lets a coordinator that is still there poll the last ends."""
    if leave.reason == "told":
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(agent.wait_received(), LINGER_S)


async def _watch_end(place: ObjectStore, run: str, leave: LeaveRequest) -> None:
    while True:
        if await has_ended(place, run):
            leave.set("ended")
            return
        await asyncio.sleep(END_CHECK_S)
