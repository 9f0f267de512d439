"""A streamed answer on its way to one client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aiohttp import web

from .dialects import StreamWriter
from .interface import Delta

__all__ = ["Outgoing", "is_there"]


def is_there(request: web.BaseRequest) -> bool:
    """Whether the client is still connected, as far as is known."""
    transport = request.transport
    return transport is not None and not transport.is_closing()


class Outgoing:
    """Writes events, opening the response with the first one. A client that is gone is no error: what it would have
    been sent is kept for the record all the same."""

    def __init__(self, request: web.BaseRequest, content_type: str, writer: StreamWriter) -> None:
        self.opened = False
        """Whether the status was sent, so that only an event can tell of a failure."""
        self.said = False
        """Whether a piece of the answer was written."""
        self._request = request
        self._writer = writer
        headers = {"Content-Type": content_type, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        self._response = web.StreamResponse(headers=headers)
        self._opening = asyncio.Lock()
        self._sent: list[bytes] = []
        self._prepared = False
        self._gone = False
        self._ended = False
        self._last = 0.0
        self._beats: set[asyncio.Task[None]] = set()

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        """Writes pieces that arrived together."""
        if deltas:
            self.said = True
            await self.open()
            await self._write(b"".join(map(self._writer.delta, deltas)))

    async def open(self) -> None:
        """Sends the status, the header section and the first event, once."""
        if not self._prepared:
            async with self._opening:
                await self._open()

    async def _open(self) -> None:
        if self._prepared:  # by whoever held the lock before
            return
        self.opened = True
        try:
            await self._response.prepare(self._request)
        except ConnectionError:
            self._gone = True
        self._prepared = True
        await self._write(self._writer.start())

    async def end(self, last: bytes) -> web.StreamResponse:
        """Writes the end of the stream; `open` comes before."""
        await self._write(last)
        self._ended = True
        if not self._gone:
            try:
                await self._response.write_eof()
            except ConnectionError:
                self._gone = True
        return self._response

    def whole(self, last: bytes) -> bytes:
        """Everything written so far, and what comes last."""
        return b"".join([*self._sent, last])

    @contextmanager
    def kept_alive(self, interval_s: float) -> Iterator[None]:
        """Tells a waiting client, whenever nothing was written for `interval_s`, that its answer is being made."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        timers: list[asyncio.TimerHandle] = []

        def beat() -> None:
            silent = loop.time() - self._last
            if silent >= interval_s * 0.99:
                task = loop.create_task(self._beat())
                self._beats.add(task)
                task.add_done_callback(self._beats.discard)
                silent = 0.0
            timers[:] = [loop.call_later(interval_s - silent, beat)]

        timers.append(loop.call_later(interval_s, beat))
        try:
            yield
        finally:
            timers[-1].cancel()
            for task in self._beats:
                task.cancel()

    async def _beat(self) -> None:
        await self.open()
        if not self._ended:
            await self._write(self._writer.keep_alive())

    async def _write(self, data: bytes) -> None:
        """Sends events in the order in which they were written: nothing is awaited before they are in line."""
        self._last = asyncio.get_running_loop().time()
        if not data:
            return
        self._sent.append(data)
        if self._gone:
            return
        try:
            await self._response.write(data)
        except ConnectionError:
            self._gone = True
