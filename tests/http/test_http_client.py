"""The client against servers that answer in every way that bytes can come."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.http import client as http_client
from assay.http.client import ClientLimits, HttpClient, ResponseTooLargeError

pytestmark = pytest.mark.quick
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
SAME = {
    "length": OK + b"Content-Length: 11\r\n\r\nhello there",
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n there\r\n0\r\n\r\n",
    "after 1xx": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 11\r\n\r\nhello there",
    "until closed": OK + b"Connection: close\r\n\r\nhello there",
}


class Server:
    """Answers every request with the same bytes, cut into pieces; then perhaps hangs up."""

    def __init__(self, answer: bytes, cuts: tuple[int, ...] = (), *, hang_up: bool = False) -> None:
        self.pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
        self.hang_up = hang_up
        self.connections = 0
        self.asked: list[bytes] = []
        self.serving: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.current_task())
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.asked.append(head + await reader.readexactly(length))
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.001)
                if self.hang_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


class Echo(Server):
    """Answers with what it was sent, in pieces of 5,000 bytes."""

    def __init__(self) -> None:
        super().__init__(b"")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.write(OK + f"Content-Length: {len(body)}\r\n\r\n".encode())
        for begin in range(0, len(body), 5000):
            writer.write(body[begin : begin + 5000])
            await asyncio.sleep(0.001)
        writer.close()


@asynccontextmanager
async def asking(server: Server, most: int = 1000, exchange_s: float = 2.0) -> AsyncIterator[HttpClient]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = HttpClient(f"http://127.0.0.1:{port}/v1/x?y=z", {"X-Key": "k"}, ClientLimits(2.0, exchange_s, most))
    try:
        yield client
    finally:
        await client.close()
        listening.close()
        await asyncio.gather(*(task for task in server.serving if task is not None))


@pytest.mark.parametrize("kind", SAME)
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_an_answer_is_the_same_in_any_pieces(kind: str, data: st.DataObject) -> None:
    answer = SAME[kind]
    cuts = tuple(sorted(data.draw(st.sets(st.integers(1, len(answer) - 1), max_size=5))))

    async def ask() -> None:
        server = Server(answer, cuts, hang_up=kind == "until closed")
        async with asking(server) as client:
            async with client.post(b"{}", {"More": "m"}) as response:
                assert (response.status, response.headers["content-type"]) == (200, "text/plain")
                assert await response.read() == b"hello there"
            found = b""
            async with client.post(b"{}", {}) as response:
                while piece := await response.read_chunk():
                    found += piece
            assert found == b"hello there"
        assert server.connections == (2 if kind == "until closed" else 1)
        first = server.asked[0]
        assert first.startswith(b"POST /v1/x?y=z HTTP/1.1\r\nHost: 127.0.0.1:")
        assert first.endswith(b"X-Key: k\r\nMore: m\r\nContent-Length: 2\r\n\r\n{}")

    asyncio.run(ask())


async def test_answers_that_come_at_the_same_time_stay_apart() -> None:
    choose = random.Random(7)
    bodies = [choose.randbytes(choose.randrange(1, 90_000)) for _ in range(12)]

    async def asked(client: HttpClient, body: bytes) -> bytes:
        async with client.post(body, {}) as response:
            found = b""
            while piece := await response.read_chunk():
                found += piece
            return found

    async with asking(Echo(), most=100_000) as client:
        assert await asyncio.gather(*(asked(client, body) for body in bodies)) == bodies


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        OK + b"Content-Length: 100\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"X: " + b"x" * 500_000,
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n" + b"a: b\r\n" * 200_000 + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5;" + b"x" * 1_000_000 + b"\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=lambda answer: answer[:60].decode(),
)
async def test_a_broken_answer_is_an_error_and_takes_its_connection_with_it(answer: bytes) -> None:
    server = Server(answer, hang_up=True)
    async with asking(server) as client:
        for _ in range(2):
            with pytest.raises(ConnectionError):
                async with client.post(b"{}", {}) as response:
                    await response.read()
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5\r\n\r\nhello there",
        OK + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello" + OK,
        OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"Content-Length: 0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\0",
        OK + b"X: y\r\n" * 30_000 + b"Content-Length: 5\r\n\r\nhello" + OK,
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=range(6),
)
async def test_bytes_after_an_answer_hold_it_up_no_longer_than_their_connection(answer: bytes) -> None:
    server = Server(answer)
    async with asking(server) as client:
        for _ in range(2):
            status, body, _ = await asyncio.wait_for(client.post(b"x", {}).read_response(), 10)
            assert (status, body) == ((204, b"") if b" 204 " in answer else (200, b"hello"))
    assert server.connections == 2


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "IDLE_REUSE_S", 0.05)
    async with asking(Server(SAME["length"]), exchange_s=1.0) as client:
        await asyncio.gather(*(client.post(b"x", {}).read_response() for _ in range(20)))
        connections = list(client._idle)
        assert len(connections) == 20
        deadline = asyncio.get_running_loop().time() + 10
        while client._idle and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        assert client._idle == []
        assert all(one.transport.is_closing() for one in connections)


async def test_a_status_below_100_is_an_answer() -> None:
    async with asking(Server(b"HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n")) as client:
        assert (await client.post(b"x", {}).read_response()).status == 0


async def test_an_answer_that_is_too_long_or_late_is_given_up() -> None:
    async with asking(Server(OK + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000)) as client:
        with pytest.raises(ResponseTooLargeError):
            async with client.post(b"{}", {}) as response:
                await response.read()
    async with asking(Server(OK + b"Content-Length: 50\r\n\r\nx"), exchange_s=0.1) as client:
        with pytest.raises(TimeoutError):
            async with client.post(b"{}", {}) as response:
                await response.read()


async def test_an_exchange_that_is_not_read_to_its_end_is_no_other_ones() -> None:
    server = Server(OK + b"Content-Length: 11\r\n\r\nhello there")
    async with asking(server) as client:
        async with client.post(b"{}", {}):
            pass
        async with client.post(b"{}", {}) as response:
            assert await response.read() == b"hello there"


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    server = Server(
        OK + b"Content-Length: 2\r\n\r\nok" + b"HTTP/1.1 500 Evil\r\nEvil: 1\r\nContent-Length: 4\r\n\r\nevil"
    )
    async with asking(server) as client:
        for _ in range(2):
            async with client.post(b"{}", {}) as response:
                assert await response.read() == b"ok"
                assert (response.status, "evil" in response.headers) == (200, False)
    assert server.connections == 2


@pytest.mark.parametrize("url", ["ftp://h/x", "http:///x", "file:///etc/passwd", "h:80"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        HttpClient(url, {}, ClientLimits(1, 1, 1))


async def test_no_header_can_bring_in_another() -> None:
    server = Server(OK + b"Content-Length: 0\r\n\r\n")
    async with asking(server) as client, client.post(b"{}", {"A": "b\r\nX-Evil: 1"}) as response:
        await response.read()
    assert b"\r\nX-Evil" not in server.asked[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_call_that_is_cancelled_as_it_connects_leaves_no_socket_behind(host: str) -> None:
    """As polls of nodes are, on a busy machine."""

    async def call_and_cancel() -> None:
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = HttpClient(f"http://{host}:{port}/", {}, ClientLimits(5.0, 5.0, 1000))
            for turns in range(200):
                calling = asyncio.create_task(client.acquire())
                for _ in range(1 + turns % 8):
                    await asyncio.sleep(0)
                calling.cancel()
                await asyncio.wait({calling})
            while client._connecting:
                await asyncio.sleep(0.01)
            await client.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(call_and_cancel())
        gc.collect()
    assert [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)] == []


async def test_a_client_that_is_closed_ends_connects_under_way() -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        client = HttpClient(f"http://localhost:{server.sockets[0].getsockname()[1]}/", {}, ClientLimits(5.0, 5.0, 1000))
        calling = asyncio.create_task(client.acquire())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ConnectionAbortedError, match="closed"):
            await calling


async def test_a_connect_to_an_address_ends_with_its_caller() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]  # fill the line of those that are not accepted
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        client = HttpClient(f"http://127.0.0.1:{full.getsockname()[1]}/", {}, ClientLimits(0.1, 5.0, 1000))
        with pytest.raises(TimeoutError):
            await client.acquire()
        async with asyncio.timeout(5):
            while client._connecting:
                await asyncio.sleep(0)
        for one in waiting:
            one.close()
        await client.close()


def test_a_waiter_that_ends_the_loop_leaves_the_time_limit_of_others() -> None:
    """As Ctrl-C does in a program whose loop goes on afterwards."""
    loop = asyncio.new_event_loop()
    silent: list[asyncio.StreamWriter] = []

    async def interrupt(client: HttpClient) -> None:
        try:
            await client.send(b"PUT / HTTP/1.1\r\n", b"").read_response()
        except TimeoutError:
            raise KeyboardInterrupt from None

    async def wait(client: HttpClient) -> None:
        with pytest.raises(TimeoutError):
            await client.send(b"PUT / HTTP/1.1\r\n", b"").read_response()

    try:
        server = loop.run_until_complete(asyncio.start_server(lambda _, writer: silent.append(writer), "127.0.0.1", 0))
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(f"http://127.0.0.1:{port}/", {}, ClientLimits(5.0, 0.2, 1000))
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(loop.create_task(interrupt(client)))
        loop.run_until_complete(asyncio.wait_for(wait(client), 30))
        loop.run_until_complete(client.close())
        server.close()
        for writer in silent:
            writer.transport.abort()
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()


async def test_a_connection_whose_request_is_not_sent_whole_is_not_used_again() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        writers.append(writer)

    async with await asyncio.start_server(answer_early, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(f"http://127.0.0.1:{port}/", {}, ClientLimits(5.0, 5.0, 1000))
        for _ in range(2):
            response = await client.send(b"PUT / HTTP/1.1\r\n", bytes(20_000_000)).read_response()
            assert response.status == 503
        await client.close()
        for writer in writers:
            writer.transport.abort()
    assert len(writers) == 2


def test_port_0_is_no_default() -> None:
    client = HttpClient("http://127.0.0.1:0/", {}, ClientLimits(1.0, 1.0, 1000))
    with pytest.raises(OSError, match="Connect call failed"):
        asyncio.run(client.acquire())
