"""The client's side: posts to one address over connections that are kept, and reads answers within bounds.

Covered: an answer's head and body are bounded in size, a whole exchange in time; an exchange that is not read to its
end takes its connection with it, so that no answer is ever taken for another's; redirects are not followed.
Not covered: HTTP/2, proxies, compression, cookies.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import httptools

from .messages import Gathered, Reading, read_buffer

__all__ = ["BrokenAnswer", "HttpClient", "Patience", "Response", "TooLong"]

MOST_HEAD = 128 * 1024
HIGH_WATER = 1024 * 1024
"""Bytes that wait to be read before the server is made to wait."""
MOST_TICK_S = 1.0
"""How much later than allowed an exchange may be given up, at most."""
KEPT_S = 60.0
"""How long an idle connection may be used again."""
_UNFIT = str.maketrans(dict.fromkeys("\r\n\0", " "))


class BrokenAnswer(ConnectionError):
    """What came is no HTTP, or ended before it was whole."""


class TooLong(ValueError):
    """The answer is longer than it may be."""


class Patience(NamedTuple):
    """Seconds until a connection stands, seconds for one exchange, and bytes of an answer's body."""

    connect_s: float
    exchange_s: float
    most_bytes: int


class HttpClient:
    """Posts to `url`; `headers` go with every request."""

    def __init__(self, url: str, headers: Mapping[str, str], patience: Patience) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"no address of an HTTP server: {parts.scheme}://{parts.hostname or ''}")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        host = f"[{self._host}]" if ":" in self._host else self._host
        named = host if parts.port is None else f"{host}:{parts.port}"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        start = f"POST {target.translate(_UNFIT).replace(' ', '%20')} HTTP/1.1\r\nHost: {named}\r\n"
        self._start = start.encode("utf-8") + _lines(headers)
        self.patience = patience
        self._buffer = read_buffer()
        self._idle: list[_Peer] = []
        self._busy: set[_Peer] = set()
        self._tls: ssl.SSLContext | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def post(self, body: bytes, headers: Mapping[str, str]) -> _Exchange:
        """Posts; entered, it waits for the answer's head.

        Raises:
            TimeoutError: It took too long.
            OSError: The server cannot be reached, or its answer is broken.
        """
        head = b"%b%bContent-Length: %d\r\n\r\n" % (self._start, _lines(headers), len(body))
        return _Exchange(self, head + body)

    async def begin(self) -> _Peer:
        """A connection that is then busy, until `end`."""
        peer = self._kept() or await self._connected()
        self._busy.add(peer)
        if self._sweeper is None:
            self._sweep()
        return peer

    def end(self, peer: _Peer) -> None:
        """Keeps the connection for the next exchange where it can have one."""
        self._busy.discard(peer)
        if peer.rest():
            self._idle.append(peer)

    def _sweep(self) -> None:
        """Gives up what took too long; looked for now and then while anything is under way, not by a timer each."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for peer in tuple(self._busy):
            peer.give_up_after(now)
        tick = min(MOST_TICK_S, self.patience.exchange_s / 20)
        self._sweeper = loop.call_later(tick, self._sweep) if self._busy else None

    def _kept(self) -> _Peer | None:
        loop = asyncio.get_running_loop()
        while self._idle:
            peer = self._idle.pop()
            if peer.usable(loop):
                return peer
            peer.leave()
        return None

    async def _connected(self) -> _Peer:
        loop = asyncio.get_running_loop()
        if self._secure and self._tls is None:
            self._tls = ssl.create_default_context()
        async with asyncio.timeout(self.patience.connect_s):
            _, peer = await loop.create_connection(
                lambda: _Peer(loop, self._buffer), self._host, self._port, ssl=self._tls, happy_eyeballs_delay=0.25
            )
        return peer

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for peer in (*self._idle, *self._busy):
            peer.leave()
        self._idle.clear()


class _Exchange:
    """One request and its answer."""

    def __init__(self, client: HttpClient, data: bytes) -> None:
        self._client = client
        self._data = data
        self._peer: _Peer | None = None

    async def __aenter__(self) -> Response:
        self._peer = peer = await self._client.begin()
        try:
            return await peer.ask(self._data, self._client.patience)
        except BaseException:
            self._client.end(peer)
            raise

    async def __aexit__(self, *_: object) -> None:
        if self._peer is not None:
            self._client.end(self._peer)


def _lines(headers: Mapping[str, str]) -> bytes:
    if not headers:
        return b""
    lines = (f"{name.translate(_UNFIT)}: {value.translate(_UNFIT)}\r\n" for name, value in headers.items())
    return "".join(lines).encode("utf-8")


class Response:
    """An answer whose head has come. Names of headers are in lower case."""

    def __init__(self, peer: _Peer, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._peer = peer

    async def whole(self) -> bytes:
        """The body. Raises `TooLong`, and as `HttpClient.post`."""
        await self._peer.until("end")
        return self._peer.taken()

    async def piece(self) -> bytes:
        """What of the body has come since it was asked last; empty at the end. Raises as `whole`."""
        await self._peer.until("piece")
        return self._peer.taken()


class _Peer(Reading):
    """One connection to the server: one exchange after the other."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, buffer: memoryview) -> None:
        super().__init__(buffer)
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._since = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._awaited: Literal["head", "piece", "end"] = "head"
        self._deadline = 0.0
        self._gone = False
        self._asked = False
        self._begin(0)

    def _begin(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = self._head_size = self._status = 0
        self._headers: dict[str, str] = {}
        self._body = Gathered()
        self._headed = self._complete = self._keep_alive = False
        self._failure: Exception | None = None

    # What whoever asks calls.

    async def ask(self, data: bytes, patience: Patience) -> Response:
        """Sends a request and waits for the head of its answer."""
        self._begin(patience.most_bytes)
        self._asked = True
        self._deadline = self._loop.time() + patience.exchange_s
        self.transport.write(data)
        await self.until("head")
        return Response(self, self._status, self._headers)

    async def until(self, what: Literal["head", "piece", "end"]) -> None:
        """Waits until that has come."""
        self._awaited = what
        if not self._is_there():
            if what == "end":
                self.transport.resume_reading()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None and not (what == "piece" and self._body):
            raise self._failure

    def taken(self) -> bytes:
        """What has come of the body."""
        if not self._complete:
            self.transport.resume_reading()
        return self._body.taken()

    def give_up_after(self, now: float) -> None:
        """Ends an exchange that should have ended by now."""
        if self._asked and now > self._deadline:
            self._fail(TimeoutError())

    def rest(self) -> bool:
        """Ends an exchange. Whether the connection can have another one; else it is closed."""
        fit = self._complete and not self._gone and self._failure is None and self._keep_alive
        self._asked, self._since = False, self._loop.time()
        if not fit:
            self.leave()
        return fit

    def usable(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it may be used again."""
        return not self._gone and not self.transport.is_closing() and loop.time() - self._since < KEPT_S

    def leave(self) -> None:
        """Closes the connection at once."""
        self._gone = True
        self.transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        if self._headed and not self._framed() and exc is None:
            self._complete = True
            self._wake()
        elif not self._complete:
            self._fail(exc or BrokenAnswer("the connection was closed before the answer was whole"))

    def _framed(self) -> bool:
        return "content-length" in self._headers or "transfer-encoding" in self._headers

    def received(self, data: memoryview) -> None:
        if not self._asked or self._complete:
            self.leave()  # nobody asked for that
            return
        if not self._headed:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._fail(BrokenAnswer(f"what came is no answer: {type(exc).__name__}"))
            return
        if not self._headed and self._head_size > MOST_HEAD:
            self._fail(BrokenAnswer("the answer's header section is too long"))
        elif self._is_there():
            self._wake()

    # What the parser calls; what comes after a whole answer is none, and ends the connection.

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._complete:
            return
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        self._status = self._parser.get_status_code()
        self._headed = self._status >= 200
        if not self._headed:
            self._headers = {}

    def on_body(self, data: bytes) -> None:
        if self._complete:
            return
        self._size += len(data)
        if self._size > self._most:
            self._fail(TooLong())
            return
        self._body.add(data)
        if len(self._body) > HIGH_WATER and self._awaited != "end":
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._complete:
            self._complete, self._keep_alive = self._headed, self._parser.should_keep_alive()

    def _is_there(self) -> bool:
        if self._complete or self._failure is not None:
            return True
        return self._headed and (self._awaited == "head" or (self._awaited == "piece" and bool(self._body)))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Exception) -> None:
        if self._failure is None and not self._complete:
            self._failure = failure
            self._wake()
            self.leave()
