"""Chrome DevTools Protocol over a pipe: JSON messages that end with a NUL byte.

No port is opened, and no library is needed. A message of the browser is data of a process that may be compromised: it
is bounded in size, and one that is not of the protocol ends the connection.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from assay.errors import EnvironmentFailure

MOST_MESSAGE: Final = 64 << 20
"""Bytes of one message, beyond which the connection is closed."""
CALL_S: Final = 60.0

EventHandler = Callable[[str, dict[str, Any]], None]


class _Message(msgspec.Struct, frozen=True):
    id: int | None = None
    method: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    sessionId: str = ""


class CdpError(Exception):
    """A command that the browser refused, such as one for a page that is gone."""


class CdpConnection:
    """Commands to a browser, and its events by session.

    Args:
        read_fd: Descriptor from which the browser's messages are read; owned by this object from `open` on.
        write_fd: Descriptor to which commands are written; likewise.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._descriptors = (read_fd, write_fd)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._handlers: dict[str, EventHandler] = {}
        self._number = 0
        self._buffer = bytearray()
        self._searched = 0
        """Bytes of the buffer that hold no end of a message."""
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self.failure: str = ""
        """Reason why the connection is closed; empty while it is open."""

    async def open(self) -> None:
        """Starts to read and write."""
        read_fd, write_fd = self._descriptors
        self._reader, _ = await self._loop.connect_read_pipe(lambda: _Pipe(self), os.fdopen(read_fd, "rb", 0))
        self._writer, _ = await self._loop.connect_write_pipe(asyncio.Protocol, os.fdopen(write_fd, "wb", 0))

    def listen(self, session: str, handler: EventHandler) -> None:
        """Calls a handler with the events of a session; the empty one is the browser's own."""
        self._handlers[session] = handler

    def forget(self, session: str) -> None:
        """Drops the events of a session."""
        self._handlers.pop(session, None)

    def send(self, method: str, session: str = "", **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Sends a command at once and returns its result to come.

        Raises:
            EnvironmentFailure: The browser is gone.
        """
        if self._writer is None or self.failure:
            raise EnvironmentFailure(f"the browser is gone: {self.failure or 'it was not started'}")
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[self._number] = future
        self._writer.write(msgspec.json.encode(message) + b"\0")
        return future

    async def call(self, method: str, session: str = "", *, timeout_s: float = CALL_S, **params: Any) -> dict[str, Any]:
        """Runs a command and returns its result.

        Raises:
            CdpError: The browser refused it.
            TimeoutError: It was not answered in time.
            EnvironmentFailure: The browser is gone.
        """
        async with asyncio.timeout(timeout_s):
            return await self.send(method, session, **params)

    def feed(self, data: bytes) -> None:
        """Takes in bytes of the browser."""
        self._buffer += data
        while (end := self._buffer.find(0, self._searched)) >= 0:
            raw = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            try:
                message = msgspec.json.decode(raw, type=_Message)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
                self.close(f"it sent a message that is none of its protocol: {exc}")
                return
            self._dispatch(message)
        self._searched = len(self._buffer)
        if self._searched > MOST_MESSAGE:
            self.close(f"it sent a message of more than {MOST_MESSAGE >> 20} MiB")

    def _dispatch(self, message: _Message) -> None:
        if message.id is None:
            handler = self._handlers.get(message.sessionId)
            if handler is not None:
                try:
                    handler(message.method, message.params)
                except (AttributeError, KeyError, TypeError, ValueError) as exc:
                    self.close(f"it sent an event that is none of its protocol: {exc}")
            return
        future = self._waiting.pop(message.id, None)
        if future is None or future.done():
            return
        if message.error is not None:
            future.set_exception(CdpError(str(message.error.get("message"))[:500]))
            future.exception()  # a command whose answer nobody awaits is no warning
        else:
            future.set_result(message.result)

    def close(self, reason: str = "it was closed") -> None:
        """Closes the connection; commands that wait for an answer fail. Idempotent."""
        if self.failure:
            return
        self.failure = reason
        for transport in (self._reader, self._writer):
            if transport is not None:
                transport.close()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(EnvironmentFailure(f"the browser is gone: {reason}"))
                future.exception()


class _Pipe(asyncio.Protocol):
    def __init__(self, connection: CdpConnection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.close("it ended")
