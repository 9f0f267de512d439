"""Nodes on a cluster of Ray: one detached actor on each machine that has CPUs. Ray is imported when it is used.

Ray places the actors and carries polls and grants; trials never pass through it, and its retries are off: leases,
epochs and the place decide. A machine that joins gets a node, one that Ray reports dead is left alone; a hung one is
noticed by its missed polls. Actors live on when the command is killed, and the next one finds them by name.

Not covered: whoever can connect to the cluster can run code on it; Ray pickles its messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import msgspec

from assay.errors import EnvironmentFailure, MissingLibraryError, UserError
from assay.settings import Settings

from .local_nodes import DRAIN_S, MOST_RESTARTS, RESTART_WAIT_S, NodeEnd, NodeOrders, Restarts
from .place_records import AgentAnnouncement, Connect, connect_http
from .ray_actor import UNREACHABLE, RayNodeActor
from .transport import (
    BackoffLink,
    GrantRequest,
    PollRequest,
    Reply,
    UnreachableAgentError,
    decode_reply,
)

PREFIX = "ray:"
NAMESPACE = "assay"
CALLS_AT_ONCE = 1_000
"""Of one actor: `run`, and calls that a hung node does not answer. More would wait in line, silently."""
SCAN_S = 2.0
"""From one look for new machines to the next."""
PENDING_S = 30.0
"""An actor that Ray cannot start for so long is reported."""
OBJECT_STORE_BYTES = 80 << 20
"""Of a Ray that the command starts; nothing of ours is put into it, and Ray takes 30% of the memory by default."""
_ADDRESS = re.compile(r"ray:(?:local|auto|//[^/\s]+:\d+|[^/\s]+:\d+)")


def require_address(nodes: str) -> None:
    """Raises `UserError` if this does not say where Ray is."""
    if not _ADDRESS.fullmatch(nodes):
        raise UserError(
            f"--nodes {nodes}: write ray:local (starts Ray on this machine), ray:auto (the cluster of which this "
            "machine is part), ray:HOST:PORT (its address, usually with port 6379), or ray://HOST:PORT (a server for "
            "Ray Client, usually with port 10001)"
        )


class RayNode(NamedTuple):
    """A machine of the cluster."""

    id: str
    host: str


class RayConnection:
    """The connection of this process to a cluster; a process has one at most."""

    def __init__(self, nodes: str) -> None:
        """Creates a connection, which `open` makes. Raises `UserError` for an invalid address."""
        require_address(nodes)
        self.address = nodes
        """Address for `--nodes` to reach the cluster from another process on this machine, once it is open."""
        self._is_ours = False

    async def open(self) -> None:
        """Connects, or uses the connection that this process has.

        Raises:
            MissingLibraryError: Ray is not installed.
            EnvironmentFailure: The cluster cannot be reached.
        """
        try:
            import ray
        except ImportError as exc:
            raise MissingLibraryError("--nodes ray:... needs Ray: pip install 'assay[ray]'") from exc
        if not ray.is_initialized():
            try:
                await asyncio.to_thread(self._connect)
            except (ConnectionError, RuntimeError, ValueError, TimeoutError, AssertionError) as exc:
                raise EnvironmentFailure(f"no connection to {self.address}: {_short(exc)}{_token_hint()}") from exc
            self._is_ours = True
        if not self.address.startswith("ray://"):
            self.address = PREFIX + str(ray.get_runtime_context().gcs_address)

    def _connect(self) -> None:
        import ray

        options: dict[str, Any] = {"namespace": NAMESPACE, "logging_level": "error", "log_to_driver": False}
        if self.address == "ray:local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # a worker for each CPU, 70 MB each
            os.environ.setdefault("RAY_worker_niceness", "0")  # 15 would starve its only node on a busy machine
            options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        ray.init(
            address=self.address if self.address.startswith("ray://") else self.address.removeprefix(PREFIX), **options
        )

    async def close(self) -> None:
        """Disconnects, if `open` connected; ends a Ray that it started."""
        if self._is_ours:
            import ray

            self._is_ours = False
            await asyncio.to_thread(ray.shutdown)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def find_machines(self) -> list[RayNode]:
        """Returns the living machines that have CPUs; a head node started with `--num-cpus=0` is not among them."""
        import ray

        found = await asyncio.to_thread(ray.nodes)
        return [
            RayNode(str(one["NodeID"]), str(one["NodeManagerHostname"]))
            for one in found
            if one["Alive"] and one["Resources"].get("CPU", 0) >= 1
        ]


def connect_ray(token: str | None = None) -> Connect:
    """Returns what makes links over the connection to Ray, and over HTTP with a token."""
    http = connect_http(token)

    def connect(agent: AgentAnnouncement) -> BackoffLink | None:
        actor = agent.url.removeprefix("ray://")
        return http(agent) if actor == agent.url else RayAgentLink(agent.agent, actor)

    return connect


class RayAgentLink(BackoffLink):
    """Calls the agent of a node through its actor."""

    def __init__(self, name: str, actor: str) -> None:
        super().__init__(name)
        self._actor = actor
        self._handle: Any = None

    async def close(self) -> None:
        self._handle = None

    async def _exchange(self, request: PollRequest | GrantRequest, kind: type[Reply]) -> Reply:
        import ray

        call = "poll" if isinstance(request, PollRequest) else "grant"
        try:
            handle = self._handle or await asyncio.to_thread(ray.get_actor, self._actor, NAMESPACE)
            self._handle = handle
            status, body = await _result(handle.call.remote(call, msgspec.json.encode(request)))
        except (ray.exceptions.RayError, ValueError, OSError) as exc:
            self._handle = None
            raise UnreachableAgentError(f"agent {self.name} cannot be reached through Ray: {_short(exc)}") from exc
        if status == UNREACHABLE:
            raise UnreachableAgentError(f"agent {self.name}: {body.decode('utf-8', 'replace')}")
        return decode_reply(f"agent {self.name}", status, body, kind)


class RayNodes:
    """Nodes of a run on a cluster. Use as a context manager, which ends them; they outlive a killed process."""

    def __init__(
        self,
        connection: RayConnection,
        orders: NodeOrders,
        run_id: str,
        warn: Callable[[str], None],
        *,
        restart_wait_s: float = RESTART_WAIT_S,
    ) -> None:
        """Creates the nodes of one run.

        Args:
            connection: Is open.
            orders: What the nodes have in common; name, token and address are set for each.
            run_id: Random id of the published run, by which a command finds the actors of the one before.
            warn: Takes a sentence for a person.
            restart_wait_s: Wait before the first restart of a node.
        """
        self._connection, self._orders, self._run_id, self._warn = connection, orders, run_id, warn
        self._restart_wait_s = restart_wait_s
        self._attended: dict[str, asyncio.Task[None]] = {}
        self._living: set[str] = set()
        self._warned: set[str] = set()
        self._failed: dict[str, str] = {}
        """The last error of each machine whose node is not started again."""

    async def __aenter__(self) -> Self:
        return self

    async def watch(self) -> None:
        """Keeps a node on each machine. Raises `EnvironmentFailure` when no machine is left on which one can run."""
        async with asyncio.TaskGroup() as group:
            while True:
                machines = await self._connection.find_machines()
                if not machines and not self._attended:
                    self._warn_once(f"no machine of {self._connection.address} has a CPU for a node yet")
                self._living = {one.id for one in machines}
                for one in machines:
                    if one.id not in self._attended:
                        self._attended[one.id] = group.create_task(self._attend(one))
                if machines and all(one.id in self._failed for one in machines):
                    reason = "; ".join(dict.fromkeys(self._failed[one.id] for one in machines))
                    raise EnvironmentFailure(f"the nodes on all machines of {self._connection.address} ended: {reason}")
                await asyncio.sleep(SCAN_S)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)

    async def _attend(self, machine: RayNode) -> None:
        """Runs a node on a machine until it ends for good, or the machine is gone."""
        clock, restarts = asyncio.get_running_loop().time, Restarts(self._restart_wait_s)
        while machine.id in self._living:
            began = clock()
            end = await self._run_node(machine)
            if machine.id not in self._living:
                break
            wait_s = restarts.next_wait(end.code, clock() - began)
            remedy = (
                "its attempts are run elsewhere"
                if wait_s is None
                else f"it is started again ({restarts.count} of {MOST_RESTARTS})"
            )
            how = "" if end.code is None else f" (exit code {end.code})"
            self._warn(f"the node on {machine.host} ended{how}; {remedy}{f': {end.error}' if end.error else ''}")
            if wait_s is None:
                self._failed[machine.id] = end.error or "it left"
                return
            await asyncio.sleep(wait_s)
        del self._attended[machine.id]  # should the machine come back, it gets a node again

    async def _run_node(self, machine: RayNode) -> NodeEnd:
        """Starts a node, or finds the one that an earlier command started, and waits for its end."""
        import ray

        name = self._actor_name(machine.id)
        config = msgspec.structs.replace(self._orders.config, name=f"{machine.host}-{machine.id[:6]}")
        orders = msgspec.structs.replace(self._orders, config=config, address=f"ray://{name}")
        try:
            actor = await asyncio.to_thread(_create_actor, name, machine.id)
            try:
                await asyncio.wait_for(_result(actor.has_started.remote()), PENDING_S)
            except TimeoutError:
                self._warn(f"Ray has not started a node on {machine.host} yet: it needs a free CPU there")
            end = await _fetch_end(actor, orders)
            await asyncio.to_thread(ray.kill, actor)  # so that the next one is not told of this end
        except (ray.exceptions.RayError, ValueError, OSError) as exc:
            return NodeEnd(None, _short(exc))
        return end

    def _actor_name(self, machine: str) -> str:
        return f"assay-{self._run_id[:12]}-{machine[:12]}"

    async def __aexit__(self, *_: object) -> None:
        """Lets all nodes leave; those that take too long end by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * DRAIN_S), asyncio.TaskGroup() as group:
                for machine in self._living:
                    group.create_task(self._end_node(self._actor_name(machine)))

    async def _end_node(self, name: str) -> None:
        import ray

        with contextlib.suppress(ray.exceptions.RayError, ValueError, OSError):  # it is gone
            actor = await asyncio.to_thread(ray.get_actor, name, NAMESPACE)
            await _result(actor.leave.remote())
            await _fetch_end(actor, self._orders)
            await asyncio.to_thread(ray.kill, actor)


def _create_actor(name: str, machine: str) -> Any:
    """Creates the actor on a machine, or returns the one of that name."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return (
        ray.remote(RayNodeActor)
        .options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=1,  # so that an autoscaler does not take the machine for idle
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=CALLS_AT_ONCE,
            enable_task_events=False,  # of each poll: 3.5 kB in the head's GCS, which keeps the last 100,000
            scheduling_strategy=NodeAffinitySchedulingStrategy(machine, soft=False),
        )
        .remote()
    )


async def _fetch_end(actor: Any, orders: NodeOrders) -> NodeEnd:
    """Waits for the end of an actor's node. Raises `RayError` if the actor dies before."""
    return msgspec.json.decode(await _result(actor.run.remote(msgspec.json.encode(orders))), type=NodeEnd)


async def _result(reference: Any) -> Any:
    """Waits for the result of a call. Cancelling the wait leaves Ray's own future alone, which Ray Client does not
    expect to be cancelled."""
    return await asyncio.shield(asyncio.wrap_future(reference.future()))


def _token_hint() -> str:
    """Returns how to reach a cluster with token authentication, which Ray does not say of an explicit address."""
    if Settings.named(("RAY_AUTH_MODE",)):
        return ""
    return (
        "; if the cluster has token authentication (by RAY_AUTH_MODE, or a file ~/.ray/auth_token where it started), "
        "set RAY_AUTH_MODE=token here, too, with its token in that file or in RAY_AUTH_TOKEN"
    )


def _short(error: Exception) -> str:
    """Returns the first and the last line of an error: those between are tables and tracebacks of Ray."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ... ".join(dict.fromkeys((lines[0], lines[-1])))
