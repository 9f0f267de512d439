"""The server's connections, with bounded patience: aiohttp bounds the size of a header section, not its time.

A connection that has not sent a whole header section in time is closed, whether it sends nothing or a byte now and
then; so is one that would be one too many. Idle connections between requests are closed after `IDLE_S`.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

__all__ = ["Budget", "Connections"]

IDLE_S = 75.0
LINGER_S = 1.0
"""How long the rest of a refused body is thrown away, so that its sender can read why."""
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """aiohttp's low-level server.

    Args:
        handler: Answers a request.
        header_s: Seconds in which a header section must have arrived.
        most: Connections at once; fewer where the process may not open so many files.
    """

    def __init__(self, handler: Handler, header_s: float, most: int) -> None:
        super().__init__(
            handler, auto_decompress=False, access_log=None, lingering_time=LINGER_S, keepalive_timeout=IDLE_S
        )
        self.header_s = header_s
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = most if files == resource.RLIM_INFINITY else min(most, max(1, files * 3 // 4))

    def __call__(self) -> RequestHandler:
        """A new connection's protocol."""
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    """Knows since when it waits for a header section to be complete."""

    def __init__(self, server: Connections, *, loop: asyncio.AbstractEventLoop, **options: object) -> None:
        super().__init__(server, loop=loop, **options)  # type: ignore[arg-type]
        self._server = server
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.connections) > self._server.most and isinstance(transport, asyncio.Transport):
            transport.write(_FULL)
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._arrived()
        elif self._waiting is None and self._current_request is None and not self._messages:
            self._wait()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().call_later(self._server.header_s, self._give_up)

    def _arrived(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()

    def _give_up(self) -> None:
        self._waiting = None
        if self.transport is not None:
            self.transport.close()


class Budget:
    """Bytes that all requests at once may take."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, size: int) -> bool:
        """Whether so much was left; then it is taken."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Gives back what was taken."""
        self._left += size
