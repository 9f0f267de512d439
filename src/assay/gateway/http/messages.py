"""What both sides of HTTP speak of."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["Gathered", "Head", "Written"]


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
