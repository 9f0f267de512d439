"""HTTP/1.1 client: requests to one server over keep-alive connections, with bounded responses.

Covered: a response's head, body and trailers are bounded in size, a whole exchange in time; one that is not read to its
end closes its connection, so that no response is taken for another's; redirects are not followed.

Not covered: HTTP/2, proxies, compression, cookies.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.staggered import staggered_race
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from .messages import BodyBuffer, BufferedConnection, allocate_read_buffer
from .prompt_tasks import FEW, PromptFuture

MAX_HEAD_BYTES = 128 * 1024
HIGH_WATER_BYTES = 1024 * 1024
"""Unread bytes above which reading pauses."""
MAX_SWEEP_S = 1.0
"""Maximum delay in seconds of a timeout."""
LONGEST_CONNECT_S = 30.0
"""For a connection to a name for which nobody waits any more."""
HAPPY_EYEBALLS_S = 0.25
"""Wait before the next address of a name is tried beside the first. An address alone is not raced."""
IDLE_REUSE_S = 60.0
"""Seconds for which an idle connection may be reused."""
_CONTROL_CHARACTERS = str.maketrans(dict.fromkeys("\r\n\0", " "))


class BrokenResponseError(ConnectionError):
    """The response is not HTTP, or ended early."""


class ResponseTooLargeError(ValueError):
    """The response exceeds its size limit."""


class ClientLimits(NamedTuple):
    """Connect timeout and exchange timeout in seconds, and maximum body size in bytes."""

    connect_s: float
    exchange_s: float
    most_bytes: int


class WholeResponse(NamedTuple):
    """A response. The names and values of its headers are as sent."""

    status: int
    body: bytes
    headers: Sequence[tuple[bytes, bytes]]


class HttpClient:
    """Posts to `url`, or sends other requests to its server; `headers` go with every request. `tls` replaces the
    system's certificate authorities. `host` is the header of that name."""

    def __init__(
        self, url: str, headers: Mapping[str, str], patience: ClientLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"no address of an HTTP server: {parts.scheme}://{parts.hostname or ''}")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        default = 443 if self._secure else 80
        self._port = default if parts.port is None else parts.port
        self._is_address = _is_address(self._host)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.host = host if parts.port is None else f"{host}:{parts.port}"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        start = f"POST {target.translate(_CONTROL_CHARACTERS).replace(' ', '%20')} HTTP/1.1\r\nHost: {self.host}\r\n"
        self._start = start.encode("utf-8") + _header_lines(headers)
        self.patience = patience
        self._buffer = allocate_read_buffer()
        self._idle: list[_ClientConnection] = []
        self._busy: set[_ClientConnection] = set()
        self._connecting: set[asyncio.Task[_ClientConnection]] = set()
        self._tls = tls
        self._sweeper: asyncio.TimerHandle | None = None

    def post(self, body: bytes, headers: Mapping[str, str]) -> _PendingExchange:
        """Sends a POST; entering the context waits for the response head.

        Raises:
            TimeoutError: It took too long.
            OSError: The server cannot be reached, or its answer is broken.
        """
        return self.send(self._start + _header_lines(headers), body)

    def send(self, head: bytes, body: bytes) -> _PendingExchange:
        """As `post`, for a request whose first line and headers are given whole but for the length of its body."""
        return _PendingExchange(self, b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))

    async def acquire(self) -> _ClientConnection:
        """Returns a connection that is busy until `release`."""
        return self.take_idle() or self._take(await self._connect())

    def take_idle(self) -> _ClientConnection | None:
        """As `acquire`, if a connection is idle."""
        connection = self._idle_connection()
        return connection and self._take(connection)

    def _take(self, connection: _ClientConnection) -> _ClientConnection:
        self._busy.add(connection)
        if self._sweeper is None:
            self._sweep()
        return connection

    def release(self, connection: _ClientConnection) -> None:
        """Returns a connection to the idle pool if it is reusable."""
        self._busy.discard(connection)
        if connection.finish_exchange():
            self._idle.append(connection)

    def _sweep(self) -> None:
        """Fails expired exchanges and closes connections that were idle for long: one periodic sweep instead of a timer
        each."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        if self._busy or self._idle:  # first: a waiter that is failed may raise here
            self._sweeper = loop.call_later(min(MAX_SWEEP_S, self.patience.exchange_s / 20), self._sweep)
        now = loop.time()
        for connection in tuple(self._busy):
            connection.check_deadline(now)
        stale = 0  # the first ones have been idle longest
        while stale < len(self._idle) and not self._idle[stale].is_reusable():
            self._idle[stale].abort()
            stale += 1
        del self._idle[:stale]

    def _idle_connection(self) -> _ClientConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable():
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _ClientConnection:
        """Connects in a task of its own, which goes on by name if the caller is cancelled or waits no longer: asyncio
        leaves the sockets of a race that is cancelled to the collector."""
        connecting = asyncio.get_running_loop().create_task(self._open_connection())
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)
        try:
            done, _ = await asyncio.wait({connecting}, timeout=self.patience.connect_s)
        except BaseException:
            self._abandon(connecting)
            raise
        if not done:
            self._abandon(connecting)
            raise TimeoutError
        if connecting.cancelled():
            raise ConnectionAbortedError("the client was closed")
        return connecting.result()

    def _abandon(self, connecting: asyncio.Task[_ClientConnection]) -> None:
        connecting.add_done_callback(_drop_connection)
        if self._is_address:
            connecting.cancel()

    async def _open_connection(self) -> _ClientConnection:
        loop = asyncio.get_running_loop()
        if self._secure and self._tls is None:
            self._tls = ssl.create_default_context()
        async with asyncio.timeout(max(LONGEST_CONNECT_S, self.patience.connect_s)):
            if self._is_address:
                return await self._connect_to(self._host)
            if isinstance(loop, asyncio.BaseEventLoop):
                return await self._connect_to(self._host, happy_eyeballs_delay=HAPPY_EYEBALLS_S)
            return await self._race()  # uvloop has no such option

    async def _connect_to(self, host: str, **options: Any) -> _ClientConnection:
        loop = asyncio.get_running_loop()
        name = None if self._tls is None else self._host
        _, connection = await loop.create_connection(
            lambda: _ClientConnection(loop, self._buffer, self._busy),
            host,
            self._port,
            ssl=self._tls,
            server_hostname=name,
            **options,
        )
        return connection

    async def _race(self) -> _ClientConnection:
        """Connects to the address of a name that answers first; the next one is tried after `HAPPY_EYEBALLS_S`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        tries = [partial(self._connect_to, host) for host in dict.fromkeys(str(info[4][0]) for info in found)]
        connection: _ClientConnection | None
        connection, _, failures = await staggered_race(tries, HAPPY_EYEBALLS_S, loop=loop)
        if connection is None:
            raise next(failure for failure in failures if failure is not None)
        return connection

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connecting in tuple(self._connecting):
            connecting.cancel()
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()


class _PendingExchange:
    def __init__(self, client: HttpClient, data: bytes) -> None:
        self._client = client
        self._data = data
        self._connection: _ClientConnection | None = None
        self.is_sent = False
        """The server may have received some of it; set by `read_response`."""

    async def read_response(self) -> WholeResponse:
        """Sends the request, and returns the response. Raises as `ClientResponse.read`."""
        client = self._client
        connection = client.take_idle() or await client.acquire()
        self.is_sent = True
        try:
            return await connection.exchange(self._data, client.patience)
        finally:
            client.release(connection)

    async def __aenter__(self) -> ClientResponse:
        self._connection = connection = await self._client.acquire()
        try:
            return await connection.ask(self._data, self._client.patience)
        except BaseException:
            self._client.release(connection)
            raise

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            self._client.release(self._connection)


def _drop_connection(connecting: asyncio.Task[_ClientConnection]) -> None:
    """Closes a connection that nobody waits for any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().abort()


def _is_address(host: str) -> bool:
    """Returns whether a host is an IP address, and no name."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _header_lines(headers: Mapping[str, str]) -> bytes:
    if not headers:
        return b""
    lines = (
        f"{name.translate(_CONTROL_CHARACTERS)}: {value.translate(_CONTROL_CHARACTERS)}\r\n"
        for name, value in headers.items()
    )
    return "".join(lines).encode("utf-8")


class ClientResponse:
    """A response whose head has arrived. Header names are lower case."""

    def __init__(self, connection: _ClientConnection, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection

    async def read(self) -> bytes:
        """Returns the body. Raises `ResponseTooLargeError`, and as `HttpClient.post`."""
        await self._connection.wait_for("end")
        return self._connection.drain()

    async def read_chunk(self) -> bytes:
        """Returns new body bytes; empty at the end. Raises as `read`."""
        await self._connection.wait_for("piece")
        return self._connection.drain()


class _ClientConnection(BufferedConnection):
    """One connection to the server, with one exchange at a time."""

    transport: asyncio.Transport

    def __init__(
        self, loop: asyncio.AbstractEventLoop, buffer: memoryview, busy: Collection[_ClientConnection]
    ) -> None:
        super().__init__(buffer)
        self._loop = loop
        self._all_busy = busy
        self._parser = httptools.HttpResponseParser(self)
        self._idle_since = 0.0
        self._waiter: PromptFuture | None = None
        self._awaited: Literal["head", "piece", "end"] = "head"
        self._deadline = 0.0
        self._closed = False
        self._in_use = False
        self._reset(0)

    def _reset(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = self._head_size = self._framing_size = self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = BodyBuffer()
        self._head_complete = self._complete = self._keep_alive = False
        self._failure: Exception | None = None

    # Called by the client.

    async def ask(self, data: bytes, patience: ClientLimits) -> ClientResponse:
        """Sends a request and waits for the response head."""
        self._send(data, patience)
        await self.wait_for("head")
        return ClientResponse(self, self._status, self._named_headers())

    async def exchange(self, data: bytes, patience: ClientLimits) -> WholeResponse:
        """Sends a request and waits for the whole response."""
        self._send(data, patience)
        await self.wait_for("end")
        return WholeResponse(self._status, self.drain(), self._headers)

    def _send(self, data: bytes, patience: ClientLimits) -> None:
        self._reset(patience.most_bytes)
        self._in_use = True
        self._deadline = self._loop.time() + patience.exchange_s
        self.transport.write(data)

    async def wait_for(self, what: Literal["head", "piece", "end"]) -> None:
        """Waits until that part has arrived."""
        self._awaited = what
        if not self._has_arrived():
            if what == "end":
                self.transport.resume_reading()
            self._waiter = PromptFuture(self._loop)
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None and not (what == "piece" and self._body):
            raise self._failure

    def drain(self) -> bytes:
        """Returns the body bytes received since the last call."""
        if not self._complete:
            self.transport.resume_reading()
        return self._body.drain()

    def check_deadline(self, now: float) -> None:
        """Fails an exchange past its deadline."""
        if self._in_use and now > self._deadline:
            self._fail(TimeoutError())

    def finish_exchange(self) -> bool:
        """Ends an exchange; returns whether the connection is reusable, else closes it."""
        reusable = self._complete and not self._closed and self._failure is None and self._keep_alive
        reusable = (
            reusable and not self.transport.get_write_buffer_size()
        )  # else the next request waits behind this one
        self._in_use, self._idle_since = False, self._loop.time()
        if not reusable:
            self.abort()
        return reusable

    def is_reusable(self) -> bool:
        """Returns whether the connection may be reused."""
        idle_s = self._loop.time() - self._idle_since
        return not self._closed and not self.transport.is_closing() and idle_s < IDLE_REUSE_S

    def abort(self) -> None:
        """Closes the connection at once."""
        self._closed = True
        self.transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._head_complete and not self._framed() and exc is None:
            self._complete = True
            self._wake_waiter()
        elif not self._complete:
            self._fail(exc or BrokenResponseError("the connection was closed before the answer was whole"))

    def _framed(self) -> bool:
        headers = self._named_headers()
        return "content-length" in headers or "transfer-encoding" in headers

    def _named_headers(self) -> dict[str, str]:
        return {name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in self._headers}

    def data_received(self, data: memoryview) -> None:
        if not self._in_use or self._complete:
            self.abort()  # unsolicited data
            return
        if self._head_complete:
            self._framing_size += len(data)
        else:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._keep_alive = False
            self._fail(BrokenResponseError(f"invalid HTTP response: {type(exc).__name__}"))
        if (self._framing_size if self._head_complete else self._head_size) > MAX_HEAD_BYTES:
            self._fail(BrokenResponseError("the answer's header section is too long"))
        if self._has_arrived():  # a complete response is one, whatever follows it
            self._wake_waiter()

    # Called by the parser; data after a complete response closes the connection.

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:  # else it is a trailer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        self._status = self._parser.get_status_code()
        self._head_complete = not 100 <= self._status < 200
        if not self._head_complete:
            self._headers = []

    def on_body(self, data: bytes) -> None:
        if self._complete:
            return
        self._framing_size = 0  # bytes since the body last grew: sizes of chunks, their extensions and trailers
        self._size += len(data)
        if self._size > self._most:
            self._fail(ResponseTooLargeError())
            return
        self._body.add(data)
        if len(self._body) > HIGH_WATER_BYTES and self._awaited != "end":
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._complete:
            self._complete, self._keep_alive = self._head_complete, self._parser.should_keep_alive()

    def _has_arrived(self) -> bool:
        if self._complete or self._failure is not None:
            return True
        return self._head_complete and (self._awaited == "head" or (self._awaited == "piece" and bool(self._body)))

    def _wake_waiter(self) -> None:
        if self._waiter is not None:
            self._waiter.resolve(prompt=len(self._all_busy) <= FEW)

    def _fail(self, failure: Exception) -> None:
        if self._failure is None and not self._complete:
            self._failure = failure
            self._wake_waiter()
            self.abort()
