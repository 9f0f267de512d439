"""Serves requests of a test script's processes to the host: records of test runs, and judged programs.

The listener lies at a path in the script's sandbox and was created by the sandbox's first process, so a client can
verify that it is the host's. A record arrives in pieces over the connection that the recorded test runner opened before
it started the tests: other processes can open further connections, but cannot change this one. A run that was announced
and did not end counts as failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from assay.environments.capabilities import ListensLocally
from assay.environments.interface import Workspace
from assay.environments.workspace.launcher.protocol import receive, send
from assay.verify.sanitise import HOME

__all__ = ["SOCKET", "ProgramStarter", "ScriptRequests"]

SOCKET = f"{HOME}/judge"
MOST_CONNECTIONS, MOST_RECORDS, MOST_RECORD = 64, 50, 32 << 20
END_S = 10.0


class ProgramStarter(Protocol):
    """Starts judged programs."""

    async def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Serves a request of `assay-judge` with three pipes; returns an exit status or an error."""
        ...


class ScriptRequests:
    """Serves one script's sandbox.

    Args:
        workspace: The sandbox; if it has no listener, nothing is served and records come as files.
        programs: Starts judged programs, or None.
    """

    def __init__(self, workspace: Workspace, programs: ProgramStarter | None = None) -> None:
        self._listens = workspace if isinstance(workspace, ListensLocally) else None
        self._programs = programs
        self._serving: set[asyncio.Task[None]] = set()
        self._records: list[bytearray | None] = []
        """The text of each announced run, in the order of announcement; None where it did not end."""

    @property
    def takes_records(self) -> bool:
        """Returns whether the recorded test runner has a connection for its records, so that record files are not
        trusted."""
        return self._listens is not None

    def records(self) -> tuple[dict[str, object], ...]:
        """Returns the record of each announced run; unfinished or unreadable ones contain a problem."""
        return tuple(_record(text) for text in self._records)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves requests while the block runs; the sandbox's processes have to end in it."""
        if self._listens is None:
            yield
            return
        listener = await self._listens.listen_local(SOCKET)
        accepting = asyncio.get_running_loop().create_task(self._accept(listener))
        try:
            yield
            await self._finish(listener)
        finally:
            for task in (accepting, *self._serving):
                task.cancel()
            await asyncio.gather(accepting, *self._serving, return_exceptions=True)
            listener.close()

    async def _finish(self, listener: socket.socket) -> None:
        """Reads the remaining messages that were sent before the end."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            while True:
                self._start(listener.accept()[0])
        if self._serving:
            await asyncio.wait(self._serving, timeout=END_S)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._start((await loop.sock_accept(listener))[0])

    def _start(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if len(self._serving) >= MOST_CONNECTIONS:
            connection.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            message, fds = await _next(connection)
            try:
                if message is not None and message.get("op") == "record":
                    await self._take_record(connection)
                elif message is not None:
                    send(connection, await self._ask_programs(connection, message, fds))
            finally:
                for fd in fds:
                    os.close(fd)

    async def _take_record(self, connection: socket.socket) -> None:
        if len(self._records) >= MOST_RECORDS:
            return
        number = len(self._records)
        self._records.append(None)
        text = bytearray()
        while True:
            message, fds = await _next(connection)
            for fd in fds:
                os.close(fd)
            if message is None:
                return
            text += str(message.get("text", "")).encode()
            if len(text) > MOST_RECORD:
                return
            if message.get("end"):
                self._records[number] = text
                return

    async def _ask_programs(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if self._programs is None:
            return {"error": "no judged programs in this verification: the task does not declare them"}
        return await _until_gone(connection, self._programs.answer(message, fds))


async def _until_gone(connection: socket.socket, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Does the work; cancels it if the requesting process ends first."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_readable(connection))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else {}
    finally:
        for task in (gone, working):
            task.cancel()
        await asyncio.gather(gone, working, return_exceptions=True)


async def _next(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Returns the next message; None at the end."""
    await _readable(connection)
    return receive(connection)


async def _readable(connection: socket.socket) -> None:
    """Waits until the connection is readable or at its end."""
    loop, fd = asyncio.get_running_loop(), connection.fileno()
    ready = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _record(text: bytearray | None) -> dict[str, object]:
    try:
        found = msgspec.json.decode(text or b"")
    except (msgspec.MsgspecError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("tests"), list):
        return {"tests": [], "problems": ["a run of the test runner began and did not tell its record to the end"]}
    return found
