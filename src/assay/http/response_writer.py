"""Writes the response to one request: whole, or in chunks while a handler makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

import msgspec

from .messages import Response

INTERNAL_ERROR = Response(500, b'{"error":{"message":"internal server error"}}', {})
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_JSON_OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class ResponseFraming(msgspec.Struct, frozen=True, gc=False):
    """How a request wants its response sent."""

    head_only: bool
    keep_alive: bool
    is_http_1_0: bool
    """True for HTTP/1.0, which has no chunked encoding."""


class ClientConnection(Protocol):
    """The connection that a response is written to."""

    transport: asyncio.Transport
    closed: bool

    @property
    def is_write_paused(self) -> bool:
        """True while the client is not reading."""
        ...

    async def drain(self) -> None:
        """Waits until the write buffer has drained."""
        ...

    def close(self) -> None:
        """Closes the connection once the response was sent."""
        ...

    def linger(self) -> None:
        """Closes the connection once the client has stopped sending."""
        ...

    def date(self) -> bytes:
        """Returns the header line of the date."""
        ...


class ResponseWriter:
    """The response to one request. Writes after a disconnect are discarded."""

    def __init__(self, connection: ClientConnection, framing: ResponseFraming) -> None:
        self._connection = connection
        self._framing = framing
        self._head_sent = False
        self._ended = False
        self.is_over = False
        """Nothing more is done for the request."""

    @property
    def connected(self) -> bool:
        """True while the client is connected, as far as known."""
        return not self._connection.closed and not self._connection.transport.is_closing()

    def send(self, response: Response, *, linger: bool = False) -> None:
        """Sends a complete response. `linger` closes the connection after it."""
        if self._head_sent or not self.connected:
            return
        self._head_sent = self._ended = True
        length = b"Content-Length: %d\r\n" % len(response.body)
        if response.status == 200 and not response.headers and self._framing.keep_alive:
            head = b"%b%b%b\r\n" % (_JSON_OK_HEAD, self._connection.date(), length)
        else:
            head = self._head(response.status, {"Content-Type": "application/json", **response.headers}, length)
        self._connection.transport.write(head if self._framing.head_only else head + response.body)
        self._finish(linger=linger)

    def begin(self, headers: Mapping[str, str]) -> None:
        """Sends the head of a streamed response."""
        self._head_sent = True
        if self.connected:
            framing = b"" if self._framing.is_http_1_0 else b"Transfer-Encoding: chunked\r\n"
            self._connection.transport.write(self._head(200, headers, framing))

    def write(self, data: bytes) -> None:
        """Sends a chunk."""
        if data and self.connected:
            self._connection.transport.write(data if self._framing.is_http_1_0 else b"%x\r\n%b\r\n" % (len(data), data))

    @property
    def is_write_paused(self) -> bool:
        """True if `drain` would wait."""
        return self._connection.is_write_paused

    async def drain(self) -> None:
        """Waits while the client is not reading."""
        await self._connection.drain()

    def end(self, last: bytes = b"") -> None:
        """Sends the last chunk and ends the response."""
        self._ended = True
        if not self.connected:
            return
        piece = b"%x\r\n%b\r\n" % (len(last), last) if last else b""
        self._connection.transport.write(last if self._framing.is_http_1_0 else piece + b"0\r\n\r\n")
        self._finish(linger=False)

    def close_unfinished(self) -> None:
        """Aborts the connection after an incomplete response, so that the client does not take it for complete."""
        self.is_over = True
        if not self._head_sent:
            self.send(INTERNAL_ERROR, linger=True)
        elif not self._ended and self.connected:
            self._connection.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str], framing: bytes) -> bytes:
        connection_header = "" if self._framing.keep_alive else "Connection: close\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        start = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n{connection_header}{lines}"
        return start.encode("latin-1", "replace") + self._connection.date() + framing + b"\r\n"

    def _finish(self, *, linger: bool) -> None:
        if linger:
            self._connection.linger()
        elif not self._framing.keep_alive:
            self._connection.close()
