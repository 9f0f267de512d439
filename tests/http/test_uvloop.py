"""The client and the server in uvloop, the event loop of many model servers, and of Ray's actors where it is
installed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvloop

from assay.http.client import ClientLimits, HttpClient
from tests.http.test_http_server import BOUNDS, App, served

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_requests_are_answered(host: str) -> None:
    bodies = [bytes([number]) * (number * number) for number in range(100)]

    async def post_all() -> None:
        async with served(App(), BOUNDS._replace(connections=200)) as port:
            client = HttpClient(f"http://{host}:{port}/", {}, ClientLimits(5.0, 5.0, 10_000))
            sent = (client.send(b"POST / HTTP/1.1\r\nHost: h\r\n", body).read_response() for body in bodies)
            answers = await asyncio.gather(*sent)
            assert [(answer.status, answer.body) for answer in answers] == [(200, body) for body in bodies]
            async with client.post(b"streamed", {}) as response:
                assert await response.read() == b"streamed"
            await client.close()

    uvloop.run(post_all())


def test_a_server_that_is_not_there_is_an_error() -> None:
    async def post() -> None:
        client = HttpClient("http://localhost:1/", {}, ClientLimits(5.0, 5.0, 10_000))
        with pytest.raises(OSError, match="refused"):
            await client.post(b"", {}).read_response()
        await client.close()

    uvloop.run(post())


def test_an_address_that_does_not_answer_delays_the_next_one_little(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ["127.0.0.2", "127.0.0.1"]

    async def getaddrinfo(_: object, host: str, port: int, **options: int) -> list[object]:
        assert host == "two.test"
        return [(socket.AF_INET, options["type"], 0, "", (address, port)) for address in addresses]

    async def post() -> None:
        async with served(App(), BOUNDS) as port:
            with silent_listener(addresses[0], port):
                client = HttpClient(f"http://two.test:{port}/", {}, ClientLimits(5.0, 5.0, 10_000))
                began = time.monotonic()
                assert (await client.post(b"body", {}).read_response()).body == b"body"
                assert time.monotonic() - began < 4.0
                await client.close()

    monkeypatch.setattr(uvloop.Loop, "getaddrinfo", getaddrinfo)
    uvloop.run(post())


@contextmanager
def silent_listener(address: str, port: int) -> Iterator[None]:
    """An address whose queue of connections is full: no answer comes to another one."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(3):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex((address, port))
        yield
