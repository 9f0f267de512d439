"""A streamed answer on its way to one client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .dialects import StreamWriter
from .http.server import Reply
from .interface import Delta

__all__ = ["Outgoing"]


class Outgoing:
    """Writes events, opening the response with the first one. A client that is gone is no error: what it would have
    been sent is kept for the record all the same."""

    def __init__(self, reply: Reply, content_type: str, writer: StreamWriter) -> None:
        self.opened = False
        """Whether the status was sent, so that only an event can tell of a failure."""
        self.said = False
        """Whether a piece of the answer was written."""
        self._reply = reply
        self._content_type = content_type
        self._writer = writer
        self._sent: list[bytes] = []
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        """Writes pieces that arrived together, and waits while the client takes nothing."""
        if deltas:
            self.said = True
            self.open()
            self._write(b"".join(map(self._writer.delta, deltas)))
            if self._reply.is_stuck:
                await self._reply.taken()

    def open(self) -> None:
        """Sends the status, the header section and the first event, once."""
        if not self.opened:
            self.opened = True
            headers = {"Content-Type": self._content_type, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            self._reply.begin(headers)
            self._write(self._writer.start())

    def whole(self, last: bytes) -> bytes:
        """Everything written so far, and what comes last."""
        return b"".join([*self._sent, last])

    @contextmanager
    def kept_alive(self, interval_s: float) -> Iterator[None]:
        """Tells a waiting client, whenever nothing was written for `interval_s`, that its answer is being made."""
        self._last = asyncio.get_running_loop().time()
        self._beat(interval_s)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _beat(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        silent = loop.time() - self._last
        if silent >= interval_s * 0.99:
            self.open()
            self._write(self._writer.keep_alive())
            silent = 0.0
        self._timer = loop.call_later(interval_s - silent, self._beat, interval_s)

    def _write(self, data: bytes) -> None:
        self._last = asyncio.get_running_loop().time()
        if data:
            self._sent.append(data)
            self._reply.write(data)
