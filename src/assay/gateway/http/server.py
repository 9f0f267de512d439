"""The server's side: requests with bounded patience and memory, answers whole or in pieces.

Who is asked decides by a request's head (`App.admit`) whether its body is read at all; a body that is not wanted is
thrown away for a moment, so that its sender can read why. Requests that were sent ahead wait their turn.

Covered: a header section is bounded in size and time, a body in time (its size is the app's to bound), connections in
number, requests sent ahead in number; a request with two lengths, or anything that is no HTTP, ends its connection.
Not covered: TLS, compression, HTTP/2. The gateway listens on loopback addresses.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import deque
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple, Protocol

import httptools
import msgspec

from .messages import Head, Reading, Written, read_buffer

__all__ = ["App", "Bounds", "Call", "HttpServer", "Reply"]

_log = logging.getLogger(__name__)
MOST_HEAD = 64 * 1024
"""Bytes of a header section; the first piece that arrives may be longer."""
MOST_HEADERS = 200
MOST_AHEAD = 32
"""Requests that a client may send ahead on one connection."""
LINGER_S = 1.0
IDLE_S = 75.0
SHUTDOWN_S = 1.0
SWEEP_S = 0.25
"""How often it is looked for what came too late; also the error of every time limit here."""
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_FAILED = Written(500, b'{"error":{"message":"the gateway failed"}}', {})
_ORDINARY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_NO_HTTP = b"this is no HTTP request that is understood here"


class Call(Protocol):
    """One request whose body is wanted."""

    def take(self, data: bytes) -> Written | None:
        """Takes another piece of the body; an answer refuses all of it."""
        ...

    def late(self) -> Written:
        """The answer where the body did not arrive in time."""
        ...

    async def answer(self, reply: Reply) -> None:
        """Answers, once the whole body is there. Is not cancelled where the client leaves."""
        ...

    def release(self) -> None:
        """Gives back what it holds. Called once, whatever happened."""
        ...


class App(Protocol):
    """What is served."""

    def admit(self, head: Head) -> Call | Written:
        """Decides on a request by its head: an answer at once, or what takes its body."""
        ...


class Bounds(NamedTuple):
    """Patience, and how many connections at once (fewer where the process may not open so many files)."""

    header_s: float
    body_s: float
    connections: int


class HttpServer:
    """Serves an app on any number of listening sockets. Use as a context manager."""

    def __init__(self, app: App, bounds: Bounds) -> None:
        self.app = app
        self.bounds = bounds
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = bounds.connections if files == resource.RLIM_INFINITY else min(bounds.connections, files * 3 // 4)
        self.open: set[_Connection] = set()
        self.date = b""
        self.buffer = read_buffer()
        self._listeners: set[asyncio.Server] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> HttpServer:
        """Begins to look at the clock."""
        self._sweep()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops listening, gives what is being answered a moment, and closes every connection."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        answering = [connection.task for connection in self.open if connection.task is not None]
        if answering:
            late = (await asyncio.wait(answering, timeout=SHUTDOWN_S))[1]
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in tuple(self.open):
            connection.transport.abort()

    async def listen(self, listener: socket.socket) -> asyncio.Server:
        """Serves on a listening socket, which it takes over."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self, loop), sock=listener, backlog=1024)
        self._listeners.add(server)
        return server

    def stop(self, listener: asyncio.Server) -> None:
        """Stops listening there; connections that stand go on."""
        self._listeners.discard(listener)
        listener.close()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.date = b"Date: " + formatdate(usegmt=True).encode() + b"\r\n"
        for connection in tuple(self.open):
            if connection.deadline is not None and connection.deadline < now:
                connection.late()
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A request that waits for its turn, or is being read."""

    call: Call | None
    refusal: Written | None
    head_only: bool
    keep_alive: bool
    plain: bool
    """It is of HTTP/1.0, which knows no chunks."""


class _Connection(Reading):
    """One client's connection: reads requests, and answers them one after the other."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server.buffer)
        self.deadline: float | None = None
        self.task: asyncio.Task[None] | None = None
        self.gone = False
        self._server = server
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._target: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._in_head = True
        self._too_many = False
        self._reading: _Asked | None = None
        self._ahead: deque[_Asked] = deque()
        self._deaf = False
        """Nothing that comes is looked at any more."""
        self._paused: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        made = transport.get_extra_info("socket")
        if made.family != socket.AF_UNIX:  # the loop does this only for sockets that say that they are of TCP
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.open.add(self)
        if len(self._server.open) > self._server.most:
            self._deaf = True
            transport.write(_FULL)
            transport.close()
        else:
            self._wait(self._server.bounds.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone, self.deadline = True, None
        self._server.open.discard(self)
        self.resume_writing()
        self._forget()

    def received(self, data: memoryview) -> None:
        if self._deaf:
            return
        if self._in_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._deaf = True  # it is answered like any other request, and the connection ends with that
        except httptools.HttpParserCallbackError as exc:
            _log.error("a request could not be taken in", exc_info=exc.__context__ or exc)
            self._refuse(_FAILED)
        except httptools.HttpParserError:
            self._refuse(Written(400, _NO_HTTP, {}))
        if self._in_head and self._head_size > MOST_HEAD and not self._deaf:
            self._refuse(Written(400, b"the header section is too long", {}))

    def pause_writing(self) -> None:
        self._paused = self._loop.create_future()
        self._flow()

    def resume_writing(self) -> None:
        paused, self._paused = self._paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)
        self._flow()

    def _flow(self) -> None:
        """Reads no further while answers are not taken or requests wait; what is thrown away is read on."""
        if (self._paused is not None or self._ahead) and not self._deaf:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    # What the parser calls, in this order for each request.

    def on_message_begin(self) -> None:
        self._target, self._headers, self._in_head = [], {}, True
        if self.task is None and not self._deaf:
            self._wait(self._server.bounds.header_s)

    def on_url(self, url: bytes) -> None:
        self._target.append(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("utf-8", "replace").lower()] = value.decode("utf-8", "replace")
        self._too_many = self._too_many or len(self._headers) > MOST_HEADERS

    def on_headers_complete(self) -> None:
        if self._deaf:
            return
        if self._too_many:
            self._refuse(Written(400, b"the header section is too long", {}))
            return
        self._in_head, self._head_size = False, 0
        method = self._parser.get_method().decode("ascii", "replace")
        target = b"".join(self._target).decode("utf-8", "replace")
        found = self._server.app.admit(Head(method, target, self._headers))
        refusal, call = (found, None) if isinstance(found, Written) else (None, found)
        plain = self._parser.get_http_version() == "1.0"
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade() and not plain
        asked = self._reading = _Asked(call, refusal, method == "HEAD", keep_alive, plain)
        if refusal is not None and self._has_body():
            self._refuse(refusal)
        elif self.task is None:
            self._wait(self._server.bounds.body_s)
            if call is not None and self._headers.get("expect", "").lower() == "100-continue" and not asked.plain:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _has_body(self) -> bool:
        return self._headers.get("content-length", "0") != "0" or "transfer-encoding" in self._headers

    def on_body(self, data: bytes) -> None:
        asked = self._reading
        if self._deaf or asked is None or asked.call is None:
            return
        refusal = asked.call.take(data)
        if refusal is not None:
            self._refuse(refusal)

    def on_message_complete(self) -> None:
        asked, self._reading, self._in_head = self._reading, None, True
        if self._deaf or asked is None:
            return
        self._ahead.append(asked)
        if len(self._ahead) > MOST_AHEAD:
            self._deaf = True
            self.transport.abort()
        elif self.task is None:
            self._next()
        else:
            self._flow()

    # Answering.

    def _next(self) -> None:
        """Answers the request whose turn it is, or waits for one."""
        self.task = None
        while self._ahead and not self.gone:
            if self._begin(self._ahead.popleft()):
                return
        if self.gone or self.transport.is_closing():
            return
        self._flow()
        bounds = self._server.bounds
        reading = bounds.body_s if self._reading is not None else bounds.header_s
        self._wait(IDLE_S if self._reading is None and self._head_size == 0 else reading)

    def _begin(self, asked: _Asked) -> bool:
        """Begins to answer; whether that takes a while."""
        reply = Reply(self, asked)
        if asked.call is None:
            reply.whole(asked.refusal or _FAILED, linger=self._deaf)
            return False
        self.deadline = None
        self.task = self._loop.create_task(self._answer(asked.call, reply))
        return True

    async def _answer(self, call: Call, reply: Reply) -> None:
        try:
            await call.answer(reply)
        except Exception:
            _log.exception("a request could not be answered")
        finally:
            call.release()
            reply.close_unfinished()
            self._next()

    @property
    def is_stuck(self) -> bool:
        """Whether the client does not take what it is sent."""
        return self._paused is not None and not self.gone

    async def written(self) -> None:
        """Waits until the client has taken what it was sent."""
        while self._paused is not None and not self.gone:
            await asyncio.shield(self._paused)

    def late(self) -> None:
        """What was waited for did not come."""
        asked = self._reading
        if asked is not None and asked.call is not None and not self._deaf:
            self._refuse(asked.call.late())
        elif self.transport.is_closing():
            self.transport.abort()  # what it was sent is not taken
        else:
            self.close()

    def _refuse(self, written: Written) -> None:
        """Answers what was not read, and reads no more."""
        asked, self._deaf = self._reading, True
        if self.task is None and not self.gone:
            head_only = asked is not None and asked.head_only
            Reply(self, _Asked(None, None, head_only, keep_alive=False, plain=False)).whole(written, linger=True)
        else:  # what is being answered ends first, and then the connection
            self._ahead.append(_Asked(None, written, head_only=False, keep_alive=False, plain=False))
        if asked is not None and asked.call is not None:
            asked.call.release()
        self._reading = None

    def close(self) -> None:
        """Ends the connection once its client took what it was sent, or did not in time."""
        self.transport.close()
        self._wait(self._server.bounds.body_s)

    def linger(self) -> None:
        """Ends the connection once its client had time to read the answer."""
        self._deaf = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._flow()
        self._wait(LINGER_S)

    def _wait(self, seconds: float) -> None:
        self.deadline = self._loop.time() + seconds

    def date(self) -> bytes:
        return self._server.date

    def _forget(self) -> None:
        waiting = [*self._ahead, *([self._reading] if self._reading is not None else [])]
        self._ahead.clear()
        self._reading, self._deaf = None, True
        for asked in waiting:
            if asked.call is not None:
                asked.call.release()


class Reply:
    """The answer to one request. A client that is gone is no error: what is written to it goes nowhere."""

    def __init__(self, connection: _Connection, asked: _Asked) -> None:
        self._connection = connection
        self._asked = asked
        self._begun = False
        self._ended = False

    @property
    def connected(self) -> bool:
        """Whether the client is still there, as far as is known."""
        return not self._connection.gone and not self._connection.transport.is_closing()

    def whole(self, written: Written, *, linger: bool = False) -> None:
        """Sends an answer whole. With `linger` the connection ends with it, once the client had time to read it."""
        if self._begun or not self.connected:
            return
        self._begun = self._ended = True
        length = b"Content-Length: %d\r\n" % len(written.body)
        if written.status == 200 and not written.headers and self._asked.keep_alive:
            head = b"%b%b%b\r\n" % (_ORDINARY, self._connection.date(), length)
        else:
            head = self._head(written.status, {"Content-Type": "application/json", **written.headers}, length)
        self._connection.transport.write(head if self._asked.head_only else head + written.body)
        self._finish(linger=linger)

    def begin(self, headers: Mapping[str, str]) -> None:
        """Sends the head of an answer that comes in pieces."""
        self._begun = True
        if self.connected:
            framing = b"" if self._asked.plain else b"Transfer-Encoding: chunked\r\n"
            self._connection.transport.write(self._head(200, headers, framing))

    def write(self, data: bytes) -> None:
        """Sends a piece."""
        if data and self.connected:
            self._connection.transport.write(data if self._asked.plain else b"%x\r\n%b\r\n" % (len(data), data))

    @property
    def is_stuck(self) -> bool:
        """Whether the client takes nothing now, so that `taken` would wait."""
        return self._connection.is_stuck

    async def taken(self) -> None:
        """Waits while the client takes nothing."""
        await self._connection.written()

    def end(self, last: bytes = b"") -> None:
        """Sends the last piece, and the end."""
        self._ended = True
        if not self.connected:
            return
        piece = b"%x\r\n%b\r\n" % (len(last), last) if last else b""
        self._connection.transport.write(last if self._asked.plain else piece + b"0\r\n\r\n")
        self._finish(linger=False)

    def close_unfinished(self) -> None:
        """Ends the connection where no whole answer was sent: its client must not take a part for the whole."""
        if not self._begun:
            self.whole(_FAILED, linger=True)
        elif not self._ended and self.connected:
            self._connection.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str], framing: bytes) -> bytes:
        kept = "" if self._asked.keep_alive else "Connection: close\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        start = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n{kept}{lines}"
        return start.encode("latin-1", "replace") + self._connection.date() + framing + b"\r\n"

    def _finish(self, *, linger: bool) -> None:
        if linger:
            self._connection.linger()
        elif not self._asked.keep_alive:
            self._connection.close()
