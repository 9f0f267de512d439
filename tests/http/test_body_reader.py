"""A body is read up to its bound: one that is larger is refused by its head or on the way."""

from __future__ import annotations

import pytest

from assay.http.body_reader import BodyReader, read_body
from assay.http.messages import RequestHead, Response
from assay.http.response_writer import ResponseWriter

pytestmark = pytest.mark.quick


async def echo(body: bytes, _: ResponseWriter) -> Response:
    """Answers with the body."""
    return Response(200, body, {})


def reader_of(length: str | None) -> BodyReader | Response:
    headers = {} if length is None else {"content-length": length}
    return read_body(RequestHead("POST", "/", headers), echo, 10)


@pytest.mark.parametrize("length", ["11", "9" * 13, "9" * 5000])
def test_a_head_that_announces_more_is_refused(length: str) -> None:
    refusal = reader_of(length)
    assert isinstance(refusal, Response)
    assert (refusal.status, refusal.body) == (413, b'{"error":{"message":"a body has at most 10 bytes"}}')


@pytest.mark.parametrize("length", [None, "10", "-1", "x"])
def test_a_body_is_counted_whatever_its_head_says(length: str | None) -> None:
    reader = reader_of(length)
    assert isinstance(reader, BodyReader)
    assert [reader.feed(b"12345"), reader.feed(b"12345")] == [None, None]
    refusal = reader.feed(b"1")
    assert refusal is not None
    assert (refusal.status, reader.timed_out().status) == (413, 408)
