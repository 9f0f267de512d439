"""Chrome DevTools Protocol over a pipe: JSON messages that end with a NUL byte.

No port is opened, and no library is needed. A message of the browser is data of a process that may be compromised: it
is bounded in size, as is what waits for the browser, and one that is not of the protocol ends the connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from assay.environments.pipe_end import PipeEnd
from assay.errors import EnvironmentFailure

MOST_MESSAGE: Final = 64 << 20
"""Bytes of one message, beyond which the connection is closed."""
MOST_UNANSWERED: Final = 50_000
"""Commands without an answer, beyond which the connection is closed."""
MOST_UNSENT: Final = 256 << 20
"""Bytes that the browser has not read yet, beyond which the connection is closed."""
CALL_S: Final = 60.0
_SURROGATES: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Escaped backslashes, surrogate pairs, and as a group what is half a pair."""

T = TypeVar("T")
EventHandler = Callable[[str, dict[str, Any]], None]


class _Message(msgspec.Struct, frozen=True):
    id: int | None = None
    method: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    sessionId: str = ""


class _Waiting(msgspec.Struct, frozen=True):
    """A command without an answer."""

    session: str
    future: asyncio.Future[dict[str, Any]]


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
        self._waiting: dict[int, _Waiting] = {}
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
        self._reader, _ = await self._loop.connect_read_pipe(lambda: _Pipe(self), PipeEnd(read_fd))
        self._writer, _ = await self._loop.connect_write_pipe(asyncio.Protocol, PipeEnd(write_fd))

    def listen(self, session: str, handler: EventHandler) -> None:
        """Calls a handler with the events of a session; the empty one is the browser's own."""
        self._handlers[session] = handler

    def forget(self, session: str) -> None:
        """Drops the events of a session; its commands that wait for an answer fail, because none may come."""
        self._handlers.pop(session, None)
        for waiting in [one for one in self._waiting.values() if one.session == session]:
            _fail(waiting.future, CdpError("it is gone"))

    def send(self, method: str, session: str = "", **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Sends a command at once and returns its result to come.

        Raises:
            EnvironmentFailure: The browser is gone.
        """
        if self._writer is None or self.failure:
            raise EnvironmentFailure(f"the browser is gone: {self.failure or 'it was not started'}")
        if len(self._waiting) >= MOST_UNANSWERED or self._writer.get_write_buffer_size() > MOST_UNSENT:
            self.close("it does not answer")
            raise EnvironmentFailure(f"the browser is gone: {self.failure}")
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._writer.write(msgspec.json.encode(message) + b"\0")
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[number] = _Waiting(session, future)
        future.add_done_callback(lambda _: self._waiting.pop(number, None))  # of one that was given up, too
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
        while not self.failure and (end := self._buffer.find(0, self._searched)) >= 0:
            raw = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            try:
                message = decode_json(raw, _Message)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
                self.close(f"it sent a message outside its protocol: {exc}")
                return
            self._dispatch(message)
        self._searched = len(self._buffer)
        if self._searched > MOST_MESSAGE:
            self.close(f"it sent a message of more than {MOST_MESSAGE >> 20} MiB")

    def _dispatch(self, message: _Message) -> None:
        if message.id is None:
            self._handle(message)
            return
        waiting = self._waiting.pop(message.id, None)
        if waiting is None or waiting.future.done():
            return
        if message.error is not None:
            _fail(waiting.future, CdpError(str(message.error.get("message"))[:500]))
        else:
            waiting.future.set_result(message.result)

    def _handle(self, event: _Message) -> None:
        handler = self._handlers.get(event.sessionId)
        if handler is None:
            return
        try:
            handler(event.method, event.params)
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            self.close(f"it sent an event outside its protocol: {exc}")
        except EnvironmentFailure:
            return  # the connection was closed before the handler could send a command

    def close(self, reason: str = "it was closed") -> None:
        """Closes the connection; commands that wait for an answer fail. Idempotent."""
        if self.failure:
            return
        self.failure = reason
        for transport in (self._reader, self._writer):
            if transport is not None:
                transport.close()
        failure = f"the browser is gone: {reason}"
        for waiting in tuple(self._waiting.values()):
            _fail(waiting.future, EnvironmentFailure(failure))
        self._waiting.clear()
        self._buffer.clear()


class _Pipe(asyncio.Protocol):
    def __init__(self, connection: CdpConnection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.close("it ended")


def _fail(future: asyncio.Future[dict[str, Any]], problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)
        future.exception()  # a command whose answer nobody awaits is no warning


def decode_json(raw: bytes, kind: type[T]) -> T:
    """Decodes what a browser sent. Half a character, where a page or `walker.js` cut a text within one, becomes U+FFFD.

    Raises:
        msgspec.DecodeError: It is not JSON of this kind.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        whole = _SURROGATES.sub(lambda found: rb"\ufffd" if found[1] else found[0], raw)
        if whole == raw:
            raise
        return msgspec.json.decode(whole, type=kind)
