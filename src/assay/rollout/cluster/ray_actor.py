"""The actor of Ray that starts one node and passes calls to it; imports no Ray before an actor runs.

The node is a process of its own, the one that `LocalNodes` starts, and holds all the work: the actor passes polls and
grants, about 200 bytes a lease, to its loopback address. So neither Ray's event loop nor its death touches a trial.
When the actor dies in whatever way, the node's standard input closes, and the node uploads what is under way and
leaves; it is detached from the actor, because Ray kills the children of its workers.

The actor outlives the command that created it. A command that resumes the run finds it by its name. Without one, the
node finishes its leases, and leaves after `ALONE_S` without a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping

import msgspec

from assay.http.client import ClientLimits, HttpClient, ResponseTooLargeError

from .local_nodes import COMMAND, FAILED, NodeEnd, NodeOrders, NodeReport

LOOPBACK_LIMITS = ClientLimits(connect_s=10.0, exchange_s=30.0, most_bytes=64 << 20)
"""Of calls to the node."""
ALONE_S = 600.0
ALONE_CHECK_S = 30.0
EXIT_S = 30.0
"""The actor exits so long after its node, so that a command can fetch the end."""
UNREACHABLE = 503
"""Status of a call that the node did not answer."""


class NodeActor:
    """Runs one node. All methods are called through Ray, with plain bytes."""

    def __init__(self) -> None:
        self._running: asyncio.Task[NodeEnd] | None = None
        self._process: Process | None = None
        self._clients: Mapping[str, HttpClient] = {}
        self._called_at = 0.0
        self._is_leaving = False

    async def has_started(self) -> bool:
        """Returns True, as soon as Ray has started the actor."""
        return True

    async def run(self, orders: bytes) -> bytes:
        """Starts the node, unless it runs already, and returns its `NodeEnd` as JSON when it has ended."""
        if self._running is None:
            if self._is_leaving:
                return msgspec.json.encode(NodeEnd(0))
            decoded = msgspec.json.decode(orders, type=NodeOrders)
            self._running = asyncio.create_task(self._run(decoded))
        return msgspec.json.encode(await asyncio.shield(self._running))

    async def call(self, name: str, body: bytes) -> tuple[int, bytes]:
        """Passes a `poll` or `grant` to the node; returns the status and the body of its answer."""
        self._called_at = asyncio.get_running_loop().time()
        return await self._pass_on(name, body)

    async def leave(self) -> None:
        """Lets the node upload what is under way, and leave."""
        self._is_leaving = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def exit(self) -> None:
        """Ends the actor."""
        import ray

        ray.actor.exit_actor()  # type: ignore[no-untyped-call,unused-ignore]

    async def _pass_on(self, name: str, body: bytes) -> tuple[int, bytes]:
        client = self._clients.get(name)
        if client is None:
            return UNREACHABLE, b"the node has not started, or has left"
        try:
            return (await client.post(body, {}).read_response())[:2]
        except (OSError, TimeoutError, ResponseTooLargeError) as exc:
            return UNREACHABLE, f"the node does not answer: {type(exc).__name__} {exc}".encode()

    async def _run(self, orders: NodeOrders) -> NodeEnd:
        token = secrets.token_hex(32)
        orders = msgspec.structs.replace(orders, token=token)
        watching = asyncio.create_task(self._watch_alone())
        end: NodeEnd | None = None
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *COMMAND, "--detach", stdin=PIPE, stdout=PIPE
            )
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(ConnectionError):  # it ended: the loop below sees that
                process.stdin.write(msgspec.json.encode(orders) + b"\n")
                await process.stdin.drain()
            if self._is_leaving:
                process.stdin.close()
            async for line in process.stdout:
                report = msgspec.json.decode(line, type=NodeReport)
                if report.url is not None:
                    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                    routes = {name: f"{report.url}/v1/{name}" for name in ("poll", "grant")}
                    self._clients = {name: HttpClient(url, headers, LOOPBACK_LIMITS) for name, url in routes.items()}
                end = report.end or end
        except OSError as exc:
            end = NodeEnd(FAILED, f"cannot start {sys.executable}: {exc}")
        finally:
            watching.cancel()
            clients, self._clients = self._clients, {}
            for client in clients.values():
                await client.close()
            self._exit_later()
        return end or NodeEnd(None, "it was killed, or crashed")

    async def _watch_alone(self) -> None:
        """Lets a node leave that no command has called for long and that has no work."""
        clock = asyncio.get_running_loop().time
        self._called_at = clock()
        while True:
            await asyncio.sleep(ALONE_CHECK_S)
            if clock() - self._called_at < ALONE_S:
                continue
            from .transport import AgentReport, PollRequest  # late: 10 MB, and most actors never come here

            status, body = await self._pass_on("poll", msgspec.json.encode(PollRequest({})))
            if status == 200:
                report = msgspec.json.decode(body, type=AgentReport)
                if report.running + report.waiting + report.uploading == 0:
                    await self.leave()

    def _exit_later(self) -> None:
        import ray

        actor = ray.get_runtime_context().current_actor
        asyncio.get_running_loop().call_later(EXIT_S, actor.exit.remote)


class RayNodeActor(NodeActor):
    """A `NodeActor` in a worker of Ray, which ends with it.

    Where PyArrow and pydantic are installed, Ray imports them, and NumPy, to pickle their objects: 45 MB that an actor
    which passes bytes does not need. The node is another process, and has them.
    """

    def __init__(self) -> None:
        for name in ("pyarrow", "pydantic"):
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # its import fails, and Ray goes on
        super().__init__()
