"""What both sides of HTTP speak of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

__all__ = ["Gathered", "Head", "Reading", "Written", "read_buffer"]

_READ_BYTES = 256 * 1024


class Head(msgspec.Struct, frozen=True, gc=False):
    """The head of a request. Names of headers are in lower case; of a repeated one the last is kept."""

    method: str
    target: str
    """Path and query, as they were sent."""
    headers: Mapping[str, str]
    """Bytes that are no UTF-8 are replaced."""


class Written(msgspec.Struct, frozen=True, gc=False):
    """A whole answer: status, body, and headers beside those that every answer has."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Gathered:
    """Bytes that come in pieces. Whoever sends them one by one makes it take no more than they are."""

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""

    def __len__(self) -> int:
        return len(self._data)

    def add(self, piece: bytes) -> None:
        """Puts a piece at the end."""
        if not self._data:
            self._data = piece  # mostly all comes at once
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += piece

    def taken(self) -> bytes:
        """All that came since it was asked last."""
        data, self._data = self._data, b""
        return bytes(data)


def read_buffer() -> memoryview:
    """What the connections of one event loop read into, one after the other: the loop gives what one of them read to it
    before it reads for another."""
    return memoryview(bytearray(_READ_BYTES))


class Reading(asyncio.BufferedProtocol):
    """A connection that takes in what was read before anything else is. A buffer of its own for each read, which is
    what `asyncio.Protocol` has, costs more than reading 10 KB does."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the loop is to write."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So much was written there."""
        self.received(self._buffer[:nbytes])

    def received(self, data: memoryview) -> None:
        """Takes in what was read. It must keep no view of `data`, into which the next connection reads."""
        raise NotImplementedError
