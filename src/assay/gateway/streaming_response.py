"""A streamed response to one client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from assay.http.response_writer import ResponseWriter

from .dialects import StreamWriter
from .interface import Delta


class StreamingResponse:
    """Writes events; the first one opens the response. After a disconnect events are still kept for the record."""

    def __init__(self, reply: ResponseWriter, content_type: str, writer: StreamWriter) -> None:
        self.is_open = False
        """The status was sent, so that errors must be events."""
        self.wrote_delta = False
        """A delta was written."""
        self._reply = reply
        self._content_type = content_type
        self._writer = writer
        self._sent: list[bytes] = []
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def write_deltas(self, deltas: Sequence[Delta]) -> None:
        """Writes deltas that arrived together; waits while the client is not reading."""
        if deltas:
            self.wrote_delta = True
            self.open()
            self._write(b"".join(map(self._writer.delta, deltas)))
            if self._reply.is_write_paused:
                await self._reply.drain()

    def open(self) -> None:
        """Sends the status, the header section and the first event, once."""
        if not self.is_open:
            self.is_open = True
            headers = {"Content-Type": self._content_type, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            self._reply.begin(headers)
            self._write(self._writer.start())

    def transcript(self, last: bytes) -> bytes:
        """Returns all bytes written so far, and `last`."""
        return b"".join([*self._sent, last])

    @contextmanager
    def keep_alive(self, interval_s: float) -> Iterator[None]:
        """Sends a keep-alive event whenever nothing was written for `interval_s`."""
        self._last = asyncio.get_running_loop().time()
        self._send_keep_alive(interval_s)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _send_keep_alive(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        silent = loop.time() - self._last
        if silent >= interval_s * 0.99:
            self.open()
            self._write(self._writer.keep_alive())
            silent = 0.0
        self._timer = loop.call_later(interval_s - silent, self._send_keep_alive, interval_s)

    def _write(self, data: bytes) -> None:
        self._last = asyncio.get_running_loop().time()
        if data:
            self._sent.append(data)
            self._reply.write(data)
