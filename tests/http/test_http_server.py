"""The server over real sockets: whatever way bytes arrive, each request gets its answer, in order."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.http.messages import RequestHead, Response
from assay.http.response_writer import ResponseWriter
from assay.http.server import HttpServer, ServerLimits
from assay.http.tls import client_tls, server_tls

pytestmark = pytest.mark.quick
BOUNDS = ServerLimits(header_s=5.0, body_s=5.0, connections=20)
Answer = Callable[[bytes, ResponseWriter], Awaitable[None]]


async def echo(body: bytes, reply: ResponseWriter) -> None:
    """Says what it was told."""
    await asyncio.sleep(0)
    reply.send(Response(200, body, {}))


class Taking:
    """Takes a body."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.body = b""

    def feed(self, data: bytes) -> Response | None:
        self.body += data
        return Response(413, b"too long", {}) if len(self.body) > 10_000 else None

    def timed_out(self) -> Response:
        return Response(408, b"late", {})

    async def answer(self, reply: ResponseWriter) -> None:
        await self.app.answer(self.body, reply)

    def release(self) -> None:
        self.app.released += 1


class App:
    """Answers what is posted; refuses the rest."""

    def __init__(self, answer: Answer = echo) -> None:
        self.answer = answer
        self.heads: list[RequestHead] = []
        self.released = 0

    def accept(self, head: RequestHead) -> Taking | Response:
        self.heads.append(head)
        return Taking(self) if head.method == "POST" else Response(404, b"nothing", {})


@asynccontextmanager
async def served(app: App, bounds: ServerLimits = BOUNDS) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with HttpServer(app, bounds) as server:
        await server.listen(listener)
        yield listener.getsockname()[1]


async def said(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Everything that comes back until the server closes, or is silent for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_s)
    found = b""
    try:
        async with asyncio.timeout(0.3):
            while data := await reader.read(65536):
                found += data
    except (TimeoutError, ConnectionResetError):
        pass
    writer.close()
    return found


def post(body: bytes, *lines: str, version: str = "1.1") -> bytes:
    head = "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {len(body)}"))
    return f"POST /x HTTP/{version}\r\nHost: h\r\n{head}\r\n".encode() + body


CHUNKED = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


@pytest.mark.parametrize("seed", range(12))
async def test_requests_in_any_pieces_are_answered_in_order(seed: int) -> None:
    choose = random.Random(seed)
    whole = post(b"first") + CHUNKED + b"GET /y HTTP/1.1\r\nHost: h\r\n\r\n" + post(b"", "X: y") + post(b"last" * 500)
    cuts = sorted(choose.sample(range(1, len(whole)), 6))
    app = App()
    async with served(app) as port:
        pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        found = await said(port, *pieces, pause_s=0.002)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in found.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"first", b"onetwo", b"nothing", b"", b"last" * 500]
    assert app.released == 4


async def test_what_clients_say_at_the_same_time_stays_apart() -> None:
    choose = random.Random(7)
    bodies = [choose.randbytes(choose.randrange(1, 9000)) for _ in range(16)]

    async def told(port: int, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        whole = post(body)
        for begin in range(0, len(whole), 700):
            writer.write(whole[begin : begin + 700])
            await asyncio.sleep(0.001)
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in head.lower()
        found = await reader.readexactly(len(body))
        writer.close()
        return found

    async with served(App()) as port:
        assert await asyncio.gather(*(told(port, body) for body in bodies)) == bodies


async def test_headers_are_named_in_lower_case_and_odd_bytes_are_replaced() -> None:
    app = App()
    async with served(app) as port:
        await said(port, b"GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-Odd: \xff\xfe\r\n\r\n")
    (head,) = app.heads
    assert (head.method, head.target, head.headers["x-odd"]) == ("GET", "/a?b=c", "\ufffd\ufffd")


@pytest.mark.parametrize(
    ("request_", "closes"),
    [
        (post(b"x"), False),
        (post(b"x", "Connection: close"), True),
        (post(b"x", version="1.0"), True),
    ],
)
async def test_a_connection_lasts_as_long_as_its_client_wants(request_: bytes, closes: bool) -> None:
    async with served(App()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(request_)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert (b"Connection: close" in head) is closes
            assert await reader.readexactly(1) == b"x"
            if closes:
                assert await reader.read() == b""
                break
        writer.close()


async def test_a_client_that_waits_to_be_told_to_go_on_is_told() -> None:
    async with served(App()) as port:
        found = await said(port, post(b"", "Expect: 100-continue").replace(b": 0\r\n", b": 2\r\n"), b"ok", pause_s=0.05)
    assert found.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


async def test_pieces_are_chunks_for_those_who_know_them() -> None:
    async def pieces(body: bytes, reply: ResponseWriter) -> None:
        reply.begin({"Content-Type": "text/plain"})
        for piece in (b"one", b"", b"two"):
            reply.write(piece)
        reply.end(b"three")

    async with served(App(pieces)) as port:
        assert (await said(port, post(b"x"))).endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n")
        assert (await said(port, post(b"x", version="1.0"))).endswith(b"\r\n\r\nonetwothree")


async def test_an_answer_that_breaks_off_is_not_taken_for_whole(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(body: bytes, reply: ResponseWriter) -> None:
        if body == b"begun":
            reply.begin({})
            reply.write(b"half")
        raise ValueError

    app = App(breaks)
    async with served(app) as port:
        assert not (await said(port, post(b"begun"))).endswith(b"0\r\n\r\n")
        assert (await said(port, post(b"x"))).startswith(b"HTTP/1.1 500 ")
    assert app.released == 2
    assert "could not be answered" in caplog.text


async def test_a_long_body_is_refused_and_its_sender_can_read_why() -> None:
    app = App()
    async with served(app) as port:
        found = await said(port, post(b"x" * 200_000))
    assert found.startswith(b"HTTP/1.1 413 ")
    assert found.count(b"HTTP/1.1") == 1
    assert app.released == 1


@pytest.mark.parametrize("part", [b"a: b\r\n", b"a: " + b"x" * 70_000 + b"\r\n"], ids=["many", "long"])
async def test_trailers_are_bounded(part: bytes) -> None:
    app = App()
    chunked = CHUNKED.removesuffix(b"\r\n")
    async with served(app) as port:
        found = await said(port, chunked + part * (1_000_000 // len(part)))
        few = await said(port, chunked + b"x-key: other\r\n\r\n" + post(b"next"))
    assert found.startswith(b"HTTP/1.1 400 ")
    assert few.count(b"HTTP/1.1 200") == 2
    assert "x-key" not in app.heads[1].headers


async def sent_whole(port: int, request: bytes, pieces: int, pause_s: float) -> bytes:
    """Sends all of a request before it reads the response's first bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    step = -(-len(request) // pieces)
    for begin in range(0, len(request), step):
        writer.write(request[begin : begin + step])
        await writer.drain()
        await asyncio.sleep(pause_s)
    found = await reader.read(13)
    writer.close()
    return found


async def test_a_client_that_sends_all_before_it_reads_gets_the_refusal() -> None:
    by_size = post(b"x" * 400_000)
    by_head = by_size.replace(b"POST", b"PUT")
    async with served(App()) as port:
        slowly = [sent_whole(port, request, 12, 0.12) for request in (by_size, by_head)]
        at_once = [sent_whole(port, post(b"x" * 20_000_000), 1, 0.0) for _ in range(3)]
        found = await asyncio.gather(*slowly, *at_once)
    assert found == [b"HTTP/1.1 413 ", b"HTTP/1.1 404 ", *[b"HTTP/1.1 413 "] * 3]


@pytest.mark.parametrize(
    ("bound", "pause_s"),
    [({"linger_bytes": 5_000_000}, 0.0), ({"linger_s": 0.3}, 0.05), ({"linger_idle_s": 0.1}, 0.7)],
)
async def test_input_after_a_refusal_is_bounded_in_bytes_time_and_silence(
    bound: dict[str, Any], pause_s: float
) -> None:
    async with served(App(), BOUNDS._replace(**bound)) as port:
        endless = CHUNKED[: CHUNKED.index(b"3\r\n")] + (b"8000\r\n" + b"x" * 0x8000 + b"\r\n") * 1000
        with pytest.raises(ConnectionError):
            await sent_whole(port, endless, 1000, pause_s)


async def test_a_refused_body_behind_a_slow_answer_is_discarded_up_to_a_bound() -> None:
    wait = asyncio.Event()

    async def slow(body: bytes, reply: ResponseWriter) -> None:
        await wait.wait()
        reply.send(Response(200, b"late", {}))

    async with served(App(slow), BOUNDS._replace(linger_bytes=1_000_000)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"x") + post(b"x" * 100_000_000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.3)
        wait.set()
        assert (await reader.read(15)) == b"HTTP/1.1 200 OK"
        writer.transport.abort()


async def test_a_slow_body_is_answered_and_a_slow_head_is_not() -> None:
    app = App()
    async with served(app, ServerLimits(0.2, 0.2, 20)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"12345")[:-2])
        assert (await reader.read(100)).startswith(b"HTTP/1.1 408 ")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /")
        assert await asyncio.wait_for(reader.read(), 2) == b""
        writer.close()
    assert app.released == 1


async def test_who_takes_nothing_is_waited_for() -> None:
    written = []

    async def much(body: bytes, reply: ResponseWriter) -> None:
        reply.begin({})
        for number in range(100):
            reply.write(b"x" * 100_000)
            await reply.drain()
            written.append(number)
        reply.end()

    async with served(App(much)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(post(b"x"))
        await asyncio.sleep(0.3)
        assert len(written) < 90
        size = 0
        while data := await reader.read(1 << 20):
            size += len(data)
            if data.endswith(b"\r\n0\r\n\r\n"):
                break
        assert size > 10_000_000
        writer.close()


async def test_a_client_that_leaves_does_not_end_what_it_asked_for() -> None:
    ended = asyncio.Event()

    async def slow(body: bytes, reply: ResponseWriter) -> None:
        await asyncio.sleep(0.2)
        assert not reply.connected
        reply.send(Response(200, b"late", {}))
        ended.set()

    app = App(slow)
    async with served(app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"x"))
        await asyncio.sleep(0.05)
        writer.close()
        await asyncio.wait_for(ended.wait(), 2)
        await asyncio.sleep(0.01)
    assert app.released == 1


@pytest.mark.parametrize("last", [b"", b"GET /y HTTP/1.1\r\nHost: h\r\n\r\n", b"POST \x00"])
async def test_who_reads_no_answer_gets_no_further_one_made(last: bytes) -> None:
    made = 0

    async def large(_: bytes, reply: ResponseWriter) -> None:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        reply.send(Response(200, b"x" * 8_000_000, {}))

    async with served(App(large)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(post(b"") * 10 + last)
        await asyncio.sleep(0.2)
        assert made < 5  # the system's own buffers hold a part
        found, tail = 0, b""
        try:
            while data := await asyncio.wait_for(reader.read(1 << 20), 1):
                found, tail = found + len(data), (tail + data)[-500:]
        except TimeoutError:
            pass
        writer.close()
    assert (made, found > 80_000_000) == (10, True)
    assert (b"HTTP/1.1 40" in tail) == bool(last)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=server")
    subprocess.run([openssl, "req", *kind, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    found = server_tls(certificate, key, "test", "0.0.0.0")
    assert found is not None
    return found


async def test_clients_that_begin_no_tls_handshake_shut_nobody_out(tls: ssl.SSLContext, tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with HttpServer(App(), BOUNDS) as server, AsyncExitStack() as silent:
        await server.listen(listener, tls)
        port = listener.getsockname()[1]
        for _ in range(3 * BOUNDS.connections):
            silent.callback((await asyncio.open_connection("127.0.0.1", port))[1].close)
            assert len(server.handshakes) + len(server.connections) <= BOUNDS.connections
        context = client_tls((tmp_path / "cert.pem").read_text())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="server")
        writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 404")
        writer.close()
        assert not [one for one in server.handshakes if one in server.connections]


async def test_a_client_of_a_full_server_is_told_so_over_tls_too(tls: ssl.SSLContext, tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    context = client_tls((tmp_path / "cert.pem").read_text())
    async with HttpServer(App(), BOUNDS) as server, AsyncExitStack() as others:
        await server.listen(listener, tls)
        place: dict[str, Any] = {"host": "127.0.0.1", "port": listener.getsockname()[1], "ssl": context}
        for _ in range(BOUNDS.connections):
            others.callback((await asyncio.open_connection(**place, server_hostname="server"))[1].close)
        reader, writer = await asyncio.open_connection(**place, server_hostname="server")
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 503")
        writer.close()


async def test_a_tls_handshake_has_the_time_of_a_header_section(tls: ssl.SSLContext) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with HttpServer(App(), BOUNDS._replace(header_s=0.3)) as server:
        await server.listen(listener, tls)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert not server.handshakes
