"""HTTP/1.1 server: bounded requests, whole or chunked responses.

The app decides by a request's head (`App.accept`) whether its body is read. Rejected input is read and discarded within
bounds (a lingering close): closing at once would reset the connection, and a client that is still sending would lose
the response. Pipelined requests are answered in order.

Covered: header sections are bounded in size and time, bodies in time (the app bounds their size), what frames them in
size (trailers are dropped), discarded input in bytes and time, connections (TLS handshakes too, which have the time of
a header section) and pipelined requests in number; a request with two lengths, or one that is not HTTP, closes its
connection.

Not covered: compression, HTTP/2; the 503 beyond the maximum of connections does not linger. A server that listens
beyond loopback is given a certificate (`HttpServer.listen`).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import deque
from email.utils import formatdate
from typing import Any, NamedTuple, Protocol, cast

import httptools
import msgspec

from .messages import BufferedConnection, RequestHead, Response, allocate_read_buffer
from .prompt_tasks import TaskPool
from .response_writer import INTERNAL_ERROR, ResponseFraming, ResponseWriter

_log = logging.getLogger(__name__)
MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a header section; the first read may be longer."""
MAX_HEADERS = 200
MAX_IDLE_TASKS = 64
"""Tasks that are kept for the next requests."""
MAX_PIPELINED = 32
"""Maximum pipelined requests on one connection."""
IDLE_S = 75.0
SHUTDOWN_S = 1.0
SWEEP_S = 0.25
"""Interval in seconds of the timeout sweep, and the error of all timeouts here."""
_OVERLOADED = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_STOPPING = Response(503, b'{"error":{"message":"the server is stopping"}}', {"Retry-After": "1"})
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
    linger_s: float = 30.0
    """Longest lingering close."""
    linger_idle_s: float = 5.0
    """Longest silence of the client in a lingering close."""
    linger_bytes: int = 128 * 1024 * 1024
    """Maximum bytes discarded on one connection."""


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
        self.handshakes: dict[_Connection, asyncio.Task[Any]] = {}
        """Connections whose TLS handshake is under way, the oldest first."""
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
        for handshake in self.handshakes.values():
            handshake.cancel()
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
        patience_s = None if tls is None else self.bounds.header_s
        # As many are accepted before the first of their handshakes begins, and is counted.
        backlog = 1024 if tls is None else max(16, self.max_connections // 4)
        server = await loop.create_server(
            lambda: self._accept(loop, is_tls=tls is not None),
            sock=listener,
            backlog=backlog,
            ssl=tls,
            ssl_handshake_timeout=patience_s,
        )
        self._listeners.add(server)
        return server

    def _accept(self, loop: asyncio.AbstractEventLoop, *, is_tls: bool) -> _Connection:
        """Returns the protocol of a connection that was accepted. asyncio calls this in the task of the TLS handshake;
        beyond the maximum of connections the oldest handshake ends, so that the newest client can have its turn. A few
        go on where all connections are taken, so that their clients are told so. uvloop calls it in no task: there only
        `header_s` bounds the handshakes."""
        connection = _Connection(self, loop)
        task = asyncio.current_task(loop) if is_tls else None
        if task is not None:
            self.handshakes[connection] = task
            task.add_done_callback(lambda _: self.handshakes.pop(connection, None))
            few = max(1, self.max_connections // 16)
            if len(self.handshakes) > max(few, self.max_connections - len(self.connections)):
                self.handshakes.pop(next(iter(self.handshakes))).cancel()
        return connection

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
    framing: ResponseFraming


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
        self._framing_size = 0
        """Bytes since the body last grew: sizes of chunks, their extensions and trailers."""
        self._in_head = True
        self._too_many_headers = False
        self._receiving: _PendingRequest | None = None
        self._pipelined: deque[_PendingRequest] = deque()
        self._ignoring_input = False
        """Input is discarded."""
        self._discarded_bytes = 0
        self._linger_end: float | None = None
        self._write_resumed: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        made = transport.get_extra_info("socket")
        if made.family != socket.AF_UNIX:  # the loop does this only for sockets that say that they are of TCP
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.handshakes.pop(self, None)
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
            self._discard(len(data))
            return
        if self._in_head:
            self._head_size += len(data)
        else:
            self._framing_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ignoring_input = True  # it is answered like any other request, and the connection ends with that
        except httptools.HttpParserCallbackError as exc:
            _log.error("a request could not be taken in", exc_info=exc.__context__ or exc)
            self._refuse(INTERNAL_ERROR)
        except httptools.HttpParserError:
            self._refuse(Response(400, _MALFORMED, {}))
        size = self._head_size if self._in_head else self._framing_size
        if size > MAX_HEAD_BYTES and not self._ignoring_input:
            self._refuse(Response(400, b"the header section is too long", {}))

    def _discard(self, size: int) -> None:
        if self.transport.is_closing():
            return
        self._discarded_bytes += size
        if self._discarded_bytes > self._server.bounds.linger_bytes:
            if self._linger_end is None:  # an earlier request is still being answered
                self.transport.pause_reading()
            else:
                self.close()
        elif self._linger_end is not None:
            self.deadline = min(self._linger_end, self._loop.time() + self._server.bounds.linger_idle_s)

    def pause_writing(self) -> None:
        self._write_resumed = self._loop.create_future()
        self._update_flow()

    def resume_writing(self) -> None:
        paused, self._write_resumed = self._write_resumed, None
        if paused is not None and not paused.done():
            paused.set_result(None)
        self._update_flow()
        if self.task is None and self._pipelined:
            self._start_next()

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
        if not self._in_head:
            return  # a trailer
        self._headers[name.decode("utf-8", "replace").lower()] = value.decode("utf-8", "replace")
        self._too_many_headers = self._too_many_headers or len(self._headers) > MAX_HEADERS

    def on_headers_complete(self) -> None:
        if self._ignoring_input:
            return
        if self._too_many_headers:
            self._refuse(Response(400, b"the header section is too long", {}))
            return
        self._in_head, self._head_size, self._framing_size = False, 0, 0
        method = self._parser.get_method().decode("ascii", "replace")
        target = b"".join(self._target).decode("utf-8", "replace")
        accepted = self._server.app.accept(RequestHead(method, target, self._headers))
        refusal, call = (accepted, None) if isinstance(accepted, Response) else (None, accepted)
        is_http_1_0 = self._parser.get_http_version() == "1.0"
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade() and not is_http_1_0
        framing = ResponseFraming(method == "HEAD", keep_alive, is_http_1_0)
        self._receiving = _PendingRequest(call, refusal, framing)
        if refusal is not None and self._has_body():
            self._refuse(refusal)
        elif self.task is None:
            self._set_deadline(self._server.bounds.body_s)
            if call is not None and self._headers.get("expect", "").lower() == "100-continue" and not is_http_1_0:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _has_body(self) -> bool:
        return self._headers.get("content-length", "0") != "0" or "transfer-encoding" in self._headers

    def on_body(self, data: bytes) -> None:
        request, self._framing_size = self._receiving, 0
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
        """Answers the next request, or waits for one, or for the client to read the responses before."""
        self.task = None
        while self._pipelined and not self.closed and self._write_resumed is None:
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
        reply = ResponseWriter(self, request.framing)
        if request.call is None:
            reply.send(request.refusal or INTERNAL_ERROR, linger=self._ignoring_input)
            return False
        self.deadline = None
        task = self._server.tasks.run(self._answer(request.call, reply))
        if not reply.is_over:
            self.task = task
        return self.task is not None  # an answer that is complete may have started the next one

    async def _answer(self, call: RequestHandler, reply: ResponseWriter) -> None:
        try:
            await call.answer(reply)
        except asyncio.CancelledError:  # the server stops: the client may ask again
            reply.send(_STOPPING)
            raise
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
        head_only = request is not None and request.framing.head_only
        framing = ResponseFraming(head_only, keep_alive=False, is_http_1_0=False)
        if self.task is None and not self._pipelined and not self.closed:
            ResponseWriter(self, framing).send(response, linger=True)
        else:  # requests before it are answered first, and then the connection ends
            self._pipelined.append(_PendingRequest(None, response, framing))
        if request is not None and request.call is not None:
            request.call.release()
        self._receiving = None

    def close(self) -> None:
        """Closes the connection once the response was sent or a timeout passed."""
        self.transport.close()
        self._set_deadline(self._server.bounds.body_s)

    def linger(self) -> None:
        """Closes the connection once the client has stopped sending, or at a bound of `ServerLimits`."""
        bounds = self._server.bounds
        self._ignoring_input = True
        self._linger_end = self._loop.time() + bounds.linger_s
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._update_flow()
        self._set_deadline(min(bounds.linger_s, bounds.linger_idle_s))

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
