"""Types shared by the HTTP client and server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

_READ_BYTES = 256 * 1024


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """Request head. Header names are lower case; of a repeated header the last value is kept."""

    method: str
    target: str
    """Path and query as sent."""
    headers: Mapping[str, str]
    """Invalid UTF-8 is replaced."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """A complete response: status, body, and headers beyond the default ones."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a response whose JSON body is `{"error": {"message": ...}}`."""
    return Response(status, msgspec.json.encode({"error": {"message": message}}), headers or {})


class BodyBuffer:
    """Accumulates bytes; its memory does not exceed them even if they arrive one by one."""

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""

    def __len__(self) -> int:
        return len(self._data)

    def add(self, piece: bytes) -> None:
        """Appends bytes."""
        if not self._data:
            self._data = piece  # mostly all comes at once
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += piece

    def drain(self) -> bytes:
        """Returns and removes all bytes."""
        data, self._data = self._data, b""
        return bytes(data)


def allocate_read_buffer() -> memoryview:
    """Allocates a read buffer shared by all connections of one event loop: data is consumed before the next read."""
    return memoryview(bytearray(_READ_BYTES))


class BufferedConnection(asyncio.BufferedProtocol):
    """A connection that consumes data as it is read. A shared buffer avoids the allocation per read of
    `asyncio.Protocol`, which costs more than reading 10 KB."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the shared buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Passes on the bytes read."""
        self.data_received(self._buffer[:nbytes])

    def data_received(self, data: memoryview) -> None:
        """Consumes the data; must keep no view of it, because the buffer is reused."""
        raise NotImplementedError
