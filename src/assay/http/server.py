"""HTTP/1.1 server: bounded requests, whole or chunked responses.

The app decides by a request's head (`App.accept`) whether its body is read. A rejected body is discarded for
`LINGER_S`, so that the client can read the error. Pipelined requests are answered in order.

Covered: header sections are bounded in size and time, bodies in time (the app bounds their size), connections and
pipelined requests in number; a request with two lengths, or one that is not HTTP, closes its connection.

Not covered: compression, HTTP/2. A server that listens beyond loopback is given a certificate (`HttpServer.listen`).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple, Protocol

import httptools
import msgspec

from .messages import BufferedConnection, RequestHead, Response, allocate_read_buffer
from .prompt_tasks import TaskPool

_log = logging.getLogger(__name__)
MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a header section; the first read may be longer."""
MAX_HEADERS = 200
MAX_IDLE_TASKS = 64
MAX_PIPELINED = 32
"""Maximum pipelined requests on one connection."""
LINGER_S = 1.0
IDLE_S = 75.0
SHUTDOWN_S = 1.0
SWEEP_S = 0.25
"""Interval in seconds of the timeout sweep, and the error of all timeouts here."""
_OVERLOADED = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_INTERNAL_ERROR = Response(500, b'{"error":{"message":"internal server error"}}', {})
_JSON_OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_MALFORMED = b"invalid HTTP request"


class RequestHandler(Protocol):
    """Handles one request whose body is wanted."""

    def feed(self, data: bytes) -> Response | None:
        """Consumes part of the body; a response rejects the request."""
        ...

    def timed_out(self) -> Response:
        """Returns the response to a body that did not arrive in time."""
        ...

    async def answer(self, reply: ResponseWriter) -> None:
        """Responds once the body is complete; not cancelled when the client disconnects."""
        ...

    def release(self) -> None:
        """Releases resources; called exactly once."""
        ...


class App(Protocol):
    """The application served."""

    def accept(self, head: RequestHead) -> RequestHandler | Response:
        """Returns a response, or a handler for the request's body."""
        ...


class ServerLimits(NamedTuple):
    """Timeouts in seconds and the maximum number of connections (less if the process may open fewer files)."""

    header_s: float
    body_s: float
    connections: int


class HttpServer:
    """Serves an app on any number of listening sockets. Use as a context manager."""

    def __init__(self, app: App, bounds: ServerLimits) -> None:
        self.app = app
        self.bounds = bounds
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.max_connections = (
            bounds.connections if files == resource.RLIM_INFINITY else min(bounds.connections, files * 3 // 4)
        )
        self.connections: set[_Connection] = set()
        self.date = b""
        self.buffer = allocate_read_buffer()
        self.tasks = TaskPool(MAX_IDLE_TASKS)
        self._listeners: set[asyncio.Server] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> HttpServer:
        """Starts the timeout sweep."""
        self._sweep()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops listening, waits briefly for running handlers, and closes all connections."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.tasks.close()
        answering = [connection.task for connection in self.connections if connection.task is not None]
        if answering:
            unfinished = (await asyncio.wait(answering, timeout=SHUTDOWN_S))[1]
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        for connection in tuple(self.connections):
            connection.transport.abort()

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        """Serves on a listening socket and owns it; with `tls`, over TLS only."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self, loop), sock=listener, backlog=1024, ssl=tls)
        self._listeners.add(server)
        return server

    def stop(self, listener: asyncio.Server) -> None:
        """Stops listening; open connections continue."""
        self._listeners.discard(listener)
        listener.close()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.date = b"Date: " + formatdate(usegmt=True).encode() + b"\r\n"
        for connection in tuple(self.connections):
            if connection.deadline is not None and connection.deadline < now:
                connection.timed_out()
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)


class _PendingRequest(msgspec.Struct, frozen=True, gc=False):
    call: RequestHandler | None
    refusal: Response | None
    head_only: bool
    keep_alive: bool
    is_http_1_0: bool
    """True for HTTP/1.0, which has no chunked encoding."""


class _Connection(BufferedConnection):
    """One client connection: receives requests and answers them in order."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server.buffer)
        self.deadline: float | None = None
        self.task: asyncio.Task[None] | None = None
        self.closed = False
        self._server = server
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._target: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._in_head = True
        self._too_many_headers = False
        self._receiving: _PendingRequest | None = None
        self._pipelined: deque[_PendingRequest] = deque()
        self._ignoring_input = False
        """Input is discarded."""
        self._write_resumed: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        made = transport.get_extra_info("socket")
        if made.family != socket.AF_UNIX:  # the loop does this only for sockets that say that they are of TCP
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.connections.add(self)
        if len(self._server.connections) > self._server.max_connections:
            self._ignoring_input = True
            transport.write(_OVERLOADED)
            transport.close()
        else:
            self._set_deadline(self._server.bounds.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed, self.deadline = True, None
        self._server.connections.discard(self)
        self.resume_writing()
        self._release_pending()

    def data_received(self, data: memoryview) -> None:
        if self._ignoring_input:
            return
        if self._in_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ignoring_input = True  # it is answered like any other request, and the connection ends with that
        except httptools.HttpParserCallbackError as exc:
            _log.error("a request could not be taken in", exc_info=exc.__context__ or exc)
            self._refuse(_INTERNAL_ERROR)
        except httptools.HttpParserError:
            self._refuse(Response(400, _MALFORMED, {}))
        if self._in_head and self._head_size > MAX_HEAD_BYTES and not self._ignoring_input:
            self._refuse(Response(400, b"the header section is too long", {}))

    def pause_writing(self) -> None:
        self._write_resumed = self._loop.create_future()
        self._update_flow()

    def resume_writing(self) -> None:
        paused, self._write_resumed = self._write_resumed, None
        if paused is not None and not paused.done():
            paused.set_result(None)
        self._update_flow()

    def _update_flow(self) -> None:
        """Pauses reading while the client does not read or requests are pending; discarded input is read on."""
        if (self._write_resumed is not None or self._pipelined) and not self._ignoring_input:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    # Called by the parser, in this order for each request.

    def on_message_begin(self) -> None:
        self._target, self._headers, self._in_head = [], {}, True
        if self.task is None and not self._ignoring_input:
            self._set_deadline(self._server.bounds.header_s)

    def on_url(self, url: bytes) -> None:
        self._target.append(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("utf-8", "replace").lower()] = value.decode("utf-8", "replace")
        self._too_many_headers = self._too_many_headers or len(self._headers) > MAX_HEADERS

    def on_headers_complete(self) -> None:
        if self._ignoring_input:
            return
        if self._too_many_headers:
            self._refuse(Response(400, b"the header section is too long", {}))
            return
        self._in_head, self._head_size = False, 0
        method = self._parser.get_method().decode("ascii", "replace")
        target = b"".join(self._target).decode("utf-8", "replace")
        accepted = self._server.app.accept(RequestHead(method, target, self._headers))
        refusal, call = (accepted, None) if isinstance(accepted, Response) else (None, accepted)
        is_http_1_0 = self._parser.get_http_version() == "1.0"
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade() and not is_http_1_0
        request = self._receiving = _PendingRequest(call, refusal, method == "HEAD", keep_alive, is_http_1_0)
        if refusal is not None and self._has_body():
            self._refuse(refusal)
        elif self.task is None:
            self._set_deadline(self._server.bounds.body_s)
            if (
                call is not None
                and self._headers.get("expect", "").lower() == "100-continue"
                and not request.is_http_1_0
            ):
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _has_body(self) -> bool:
        return self._headers.get("content-length", "0") != "0" or "transfer-encoding" in self._headers

    def on_body(self, data: bytes) -> None:
        request = self._receiving
        if self._ignoring_input or request is None or request.call is None:
            return
        refusal = request.call.feed(data)
        if refusal is not None:
            self._refuse(refusal)

    def on_message_complete(self) -> None:
        request, self._receiving, self._in_head = self._receiving, None, True
        if self._ignoring_input or request is None:
            return
        self._pipelined.append(request)
        if len(self._pipelined) > MAX_PIPELINED:
            self._ignoring_input = True
            self.transport.abort()
        elif self.task is None:
            self._start_next()
        else:
            self._update_flow()

    # Answering.

    def _start_next(self) -> None:
        """Answers the next request, or waits for one."""
        self.task = None
        while self._pipelined and not self.closed:
            if self._start(self._pipelined.popleft()):
                return
        if self.closed or self.transport.is_closing():
            return
        self._update_flow()
        bounds = self._server.bounds
        reading = bounds.body_s if self._receiving is not None else bounds.header_s
        self._set_deadline(IDLE_S if self._receiving is None and self._head_size == 0 else reading)

    def _start(self, request: _PendingRequest) -> bool:
        """Starts to answer; returns whether a handler is running."""
        reply = ResponseWriter(self, request)
        if request.call is None:
            reply.send(request.refusal or _INTERNAL_ERROR, linger=self._ignoring_input)
            return False
        self.deadline = None
        task = self._server.tasks.run(self._answer(request.call, reply))
        if not reply.is_over:
            self.task = task
        return self.task is not None  # an answer that is complete may have started the next one

    async def _answer(self, call: RequestHandler, reply: ResponseWriter) -> None:
        try:
            await call.answer(reply)
        except Exception:
            _log.exception("a request could not be answered")
        finally:
            call.release()
            reply.close_unfinished()
            self._start_next()

    @property
    def is_write_paused(self) -> bool:
        """True while the client is not reading."""
        return self._write_resumed is not None and not self.closed

    async def drain(self) -> None:
        """Waits until the write buffer has drained."""
        while self._write_resumed is not None and not self.closed:
            await asyncio.shield(self._write_resumed)

    def timed_out(self) -> None:
        """Handles an expired deadline."""
        request = self._receiving
        if request is not None and request.call is not None and not self._ignoring_input:
            self._refuse(request.call.timed_out())
        elif self.transport.is_closing():
            self.transport.abort()  # what it was sent is not taken
        else:
            self.close()

    def _refuse(self, response: Response) -> None:
        """Answers a request without reading it and discards further input."""
        request, self._ignoring_input = self._receiving, True
        if self.task is None and not self.closed:
            head_only = request is not None and request.head_only
            ResponseWriter(self, _PendingRequest(None, None, head_only, keep_alive=False, is_http_1_0=False)).send(
                response, linger=True
            )
        else:  # what is being answered ends first, and then the connection
            self._pipelined.append(
                _PendingRequest(None, response, head_only=False, keep_alive=False, is_http_1_0=False)
            )
        if request is not None and request.call is not None:
            request.call.release()
        self._receiving = None

    def close(self) -> None:
        """Closes the connection once the response was sent or a timeout passed."""
        self.transport.close()
        self._set_deadline(self._server.bounds.body_s)

    def linger(self) -> None:
        """Closes the connection after `LINGER_S`, so that the client can read the response."""
        self._ignoring_input = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._update_flow()
        self._set_deadline(LINGER_S)

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = self._loop.time() + seconds

    def date(self) -> bytes:
        return self._server.date

    def _release_pending(self) -> None:
        waiting = [*self._pipelined, *([self._receiving] if self._receiving is not None else [])]
        self._pipelined.clear()
        self._receiving, self._ignoring_input = None, True
        for request in waiting:
            if request.call is not None:
                request.call.release()


class ResponseWriter:
    """The response to one request. Writes after a disconnect are discarded."""

    def __init__(self, connection: _Connection, request: _PendingRequest) -> None:
        self._connection = connection
        self._request = request
        self._head_sent = False
        self._ended = False
        self.is_over = False
        """Nothing more is done for the request."""

    @property
    def connected(self) -> bool:
        """True while the client is connected, as far as known."""
        return not self._connection.closed and not self._connection.transport.is_closing()

    def send(self, response: Response, *, linger: bool = False) -> None:
        """Sends a complete response. `linger` closes the connection after it."""
        if self._head_sent or not self.connected:
            return
        self._head_sent = self._ended = True
        length = b"Content-Length: %d\r\n" % len(response.body)
        if response.status == 200 and not response.headers and self._request.keep_alive:
            head = b"%b%b%b\r\n" % (_JSON_OK_HEAD, self._connection.date(), length)
        else:
            head = self._head(response.status, {"Content-Type": "application/json", **response.headers}, length)
        self._connection.transport.write(head if self._request.head_only else head + response.body)
        self._finish(linger=linger)

    def begin(self, headers: Mapping[str, str]) -> None:
        """Sends the head of a streamed response."""
        self._head_sent = True
        if self.connected:
            framing = b"" if self._request.is_http_1_0 else b"Transfer-Encoding: chunked\r\n"
            self._connection.transport.write(self._head(200, headers, framing))

    def write(self, data: bytes) -> None:
        """Sends a chunk."""
        if data and self.connected:
            self._connection.transport.write(data if self._request.is_http_1_0 else b"%x\r\n%b\r\n" % (len(data), data))

    @property
    def is_write_paused(self) -> bool:
        """True if `drain` would wait."""
        return self._connection.is_write_paused

    async def drain(self) -> None:
        """Waits while the client is not reading."""
        await self._connection.drain()

    def end(self, last: bytes = b"") -> None:
        """Sends the last chunk and ends the response."""
        self._ended = True
        if not self.connected:
            return
        piece = b"%x\r\n%b\r\n" % (len(last), last) if last else b""
        self._connection.transport.write(last if self._request.is_http_1_0 else piece + b"0\r\n\r\n")
        self._finish(linger=False)

    def close_unfinished(self) -> None:
        """Aborts the connection after an incomplete response, so that the client does not take it for complete."""
        self.is_over = True
        if not self._head_sent:
            self.send(_INTERNAL_ERROR, linger=True)
        elif not self._ended and self.connected:
            self._connection.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str], framing: bytes) -> bytes:
        connection_header = "" if self._request.keep_alive else "Connection: close\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        start = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n{connection_header}{lines}"
        return start.encode("latin-1", "replace") + self._connection.date() + framing + b"\r\n"

    def _finish(self, *, linger: bool) -> None:
        if linger:
            self._connection.linger()
        elif not self._request.keep_alive:
            self._connection.close()
