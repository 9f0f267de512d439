"""Reads the body of a request within a bound, then answers the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .messages import BodyBuffer, RequestHead, Response, error_response
from .response_writer import ResponseWriter

AnswerBody = Callable[[bytes, ResponseWriter], Awaitable[Response | None]]
"""Returns the response to a body; None if it was written already."""
MakeError = Callable[[int, str], Response]
"""Returns the response to a body that is too large (413) or late (408), by status and message."""


class BodyReader:
    """Implements `RequestHandler` for bodies of at most `most` bytes."""

    def __init__(self, answer: AnswerBody, most: int, error: MakeError = error_response) -> None:
        self._answer, self._most, self._error = answer, most, error
        self._body = BodyBuffer()

    def feed(self, data: bytes) -> Response | None:
        if len(self._body) + len(data) > self._most:
            return too_large(self._most, self._error)
        self._body.add(data)
        return None

    def timed_out(self) -> Response:
        return self._error(408, "the body did not arrive in time")

    async def answer(self, reply: ResponseWriter) -> None:
        response = await self._answer(self._body.drain(), reply)
        if response is not None:
            reply.send(response)

    def release(self) -> None:
        self._body.drain()


def read_body(
    head: RequestHead, answer: AnswerBody, most: int, error: MakeError = error_response
) -> BodyReader | Response:
    """Returns a reader of a request's body, or the response if its head announces a larger one than `most` bytes."""
    return too_large(most, error) if announces_more(head, most) else BodyReader(answer, most, error)


def announces_more(head: RequestHead, most: int) -> bool:
    """Returns whether a request's head announces a body of more than `most` bytes."""
    length = head.headers.get("content-length", "0")
    return len(length) > 12 or (length.isdecimal() and int(length) > most)


def too_large(most: int, error: MakeError = error_response) -> Response:
    """Returns the response to a body of more than `most` bytes."""
    return error(413, f"a body has at most {most} bytes")
