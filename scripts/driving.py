"""Runs an agent's programs against a model in a real sandbox, with a gateway and without a run.

For tests of recipes and for the table in docs/harnesses.md. Nothing is stored: recorded exchanges are kept in a list. A
relay between sandbox and gateway can cut connections, as a network would.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Unpack, cast

import msgspec

from assay.agents.interface import Agent, Endpoint, sandbox_spec
from assay.agents.testing import FakeAttempt, fake_task
from assay.environments.interface import Backend, Change, ExecOptions, ExecResult, Workspace, WorkspaceSpec
from assay.errors import AssayError
from assay.gateway.interface import CallHooks, Exchange, ModelRequest
from assay.gateway.model import Model
from assay.gateway.server import Gateway, GatewayOptions


class Drive(msgspec.Struct, frozen=True):
    instruction: str
    spec: WorkspaceSpec = WorkspaceSpec()
    timeout_s: float = 120.0
    keep_alive_s: float = 10.0
    files: dict[str, bytes] = {}
    """Files put into the sandbox before."""
    read: tuple[str, ...] = ()
    """Files to read afterwards."""


class DriveResult(NamedTuple):
    ended: str | None
    error: str | None
    """Error of the agent, if it failed."""
    results: list[ExecResult]
    exchanges: list[Exchange]
    changes: tuple[Change, ...]
    files: Mapping[str, bytes]
    """Existing files of `Drive.read`."""
    seconds: float

    @property
    def answered(self) -> list[Exchange]:
        return [exchange for exchange in self.exchanges if exchange.reply is not None]


class ExchangeLog(CallHooks):
    """Recorder of every exchange."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._numbers = itertools.count(1)

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        return f"call-{next(self._numbers)}"

    async def after(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


class ConnectionRelay:
    """Relay between a listener and a server on the host; `cut` closes every connection abruptly."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.cuts = 0

    def cut(self) -> None:
        self.cuts += 1
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, inner_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, inner_writer))
                group.create_task(_pump(inner_reader, writer))
        finally:
            for end in (writer, inner_writer):
                self._writers.discard(end)
                end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()


class _TimedWorkspace:
    def __init__(self, inner: Workspace, timeout_s: float) -> None:
        self._inner, self._timeout_s = inner, timeout_s
        self.results: list[ExecResult] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        options["timeout_s"] = options.get("timeout_s") or self._timeout_s
        result = await self._inner.exec(command, **options)
        self.results.append(result)
        return result


@asynccontextmanager
async def _serve(
    workspace: Workspace, model: Model, hooks: CallHooks, keep_alive_s: float
) -> AsyncIterator[tuple[Endpoint, ConnectionRelay]]:
    """Opens a gateway with one session reachable inside the sandbox."""
    own = socket.create_server(("127.0.0.1", 0))
    async with Gateway(GatewayOptions(keep_alive_s=keep_alive_s)) as gateway:
        session = gateway.open(model, hooks)
        await gateway.listen(own)
        relay = ConnectionRelay(own.getsockname()[1])
        listener = await workspace.listen()
        port = listener.getsockname()[1]
        server = await asyncio.start_server(relay.serve, sock=listener)
        try:
            yield Endpoint(f"http://127.0.0.1:{port}/s/{session.id}", session.key, model.name), relay
        finally:
            server.close()
            relay.cut()


async def drive(
    agent: Agent, model: Model, backend: Backend, what: Drive, relays: list[ConnectionRelay] | None = None
) -> DriveResult:
    """Runs an agent once in a fresh sandbox; for a model that cuts connections, the relay is appended to `relays`."""
    hooks = ExchangeLog()
    inner = await backend.open(sandbox_spec(what.spec, agent))
    try:
        workspace = _TimedWorkspace(inner, what.timeout_s)
        for path, data in what.files.items():
            await inner.write(path, data)
        started, error = time.monotonic(), None
        async with _serve(inner, model, hooks, what.keep_alive_s) as (endpoint, relay):
            if relays is not None:
                relays.append(relay)
            attempt = FakeAttempt(
                task=fake_task(what.instruction), workspace=cast("Workspace", workspace), served=endpoint
            )
            try:
                await agent.run(attempt)
            except AssayError as exc:
                error = f"{type(exc).__name__}: {exc}"
        seconds = time.monotonic() - started
        files = await _read(inner, what.read)
        changes = await inner.diff()
    finally:
        await inner.close()
    return DriveResult(attempt.ended, error, workspace.results, hooks.exchanges, changes, files, seconds)


async def _read(workspace: Workspace, paths: Sequence[str]) -> dict[str, bytes]:
    found = {}
    for path in paths:
        with suppress(OSError, ValueError):
            found[path] = await workspace.read(path)
    return found
