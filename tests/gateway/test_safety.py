"""Attacks on a real server process over real sockets: refused or served, with bounded memory, and the server lives."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent
MIB = 1024 * 1024
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATHS = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": CHAT | {"max_tokens": 5},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1beta/models/m:generateContent": {"contents": [{"parts": [{"text": "hi"}]}]},
}


class Server(NamedTuple):
    """The server process, and the address and key of its first session; `other` is the second one's key."""

    process: subprocess.Popen[str]
    port: int
    session: str
    key: str
    other: str

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def head(self, path: str = "/v1/chat/completions", **headers: Any) -> bytes:
        named = {"Host": "h", "Authorization": f"Bearer {self.key}"} | {
            name.replace("_", "-"): str(value) for name, value in headers.items()
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value != "")
        return f"POST /s/{self.session}{path} HTTP/1.1\r\n{lines}\r\n".encode()

    def post(self, body: bytes, path: str = "/v1/chat/completions", **headers: Any) -> tuple[int, bytes]:
        with self.connect() as there:
            return sent(there, self.head(path, **{"Content_Length": len(body)} | headers) + body)

    def calls(self) -> int:
        """Calls begun since this was asked last; a call's line is written before its answer."""
        assert self.process.stdout is not None
        with suppress(BlockingIOError):
            return os.read(self.process.stdout.fileno(), 65536).count(b"call\n")
        return 0

    def peak(self) -> int:
        """Bytes of memory at the most since this was asked last."""
        folder = Path(f"/proc/{self.process.pid}")
        most = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM"))
        (folder / "clear_refs").write_text("5")
        return int(most.split()[1]) * 1024


def sent(there: socket.socket, data: bytes) -> tuple[int, bytes]:
    """Sends until the server answers, as clients do whose request may be refused early: on a busy host the rest takes
    longer than a server waits. Reads the answer's status (0 where there was none) and body."""
    rest = memoryview(data)
    with suppress(BrokenPipeError, ConnectionResetError):
        while rest and not select.select([there], [], [], 0)[0]:
            rest = rest[there.send(rest[: 1 << 20]) :]
    answer = received(there)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def received(there: socket.socket, whole: bool = False) -> bytes:
    """What comes until one answer is complete; with `whole`, until the end."""
    found = b""
    try:
        while chunk := there.recv(65536):
            found += chunk
            head, end, body = found.partition(b"\r\n\r\n")
            length = next(
                (int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-l")), None
            )
            if not whole and end and length is not None and len(body) >= length:
                break
    except ConnectionResetError:
        pass
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("/proc/PID/clear_refs cannot be written: peaks of memory cannot be told apart")
    command = [sys.executable, "-m", "tests.gateway.safety_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        port, session, key = process.stdout.readline().split()
        _, _, other = process.stdout.readline().split()
        os.set_blocking(process.stdout.fileno(), False)
        it = Server(process, int(port), session, key, other)
        it.peak()
        yield it
        process.kill()


@pytest.fixture(autouse=True)
def _lives(server: Server) -> Iterator[None]:
    """After each attack the server still answers, and has not grown by more than it may hold."""
    before = server.peak()
    yield
    assert server.post(json.dumps(CHAT).encode())[0] == 200
    server.calls()
    assert server.peak() < before + 250 * MIB


@pytest.mark.parametrize("path", PATHS)
def test_each_dialect_is_served(server: Server, path: str) -> None:
    status, body = server.post(json.dumps(PATHS[path]).encode(), path)
    assert (status, b"fine" in body, server.calls()) == (200, True, 1)


@pytest.mark.parametrize("path", PATHS)
def test_without_the_sessions_key_nothing_is_reached(server: Server, path: str) -> None:
    body = json.dumps(PATHS[path]).encode()
    for key in ("", "Bearer wrong", f"Bearer {server.other}", "Bearer \xff"):
        assert server.post(body, path, Authorization=key)[0] == 401
    assert server.post(body, f"{path}?key=wrong", Authorization="")[0] == 401
    for elsewhere in (server._replace(session="none"), server._replace(session="..%2f" + server.session)):
        assert elsewhere.post(body, path)[0] == 404
    with server.connect() as there:
        assert sent(there, b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")[0] == 404
    assert server.calls() == 0


def test_a_body_without_a_key_is_not_read(server: Server) -> None:
    with server.connect() as there:
        head = server.head(Content_Length=100 * MIB, Authorization="Bearer wrong")
        assert sent(there, head + b"x" * MIB)[0] == 401
        assert received(there) == b""


def test_a_body_of_100_mb_is_refused(server: Server) -> None:
    with server.connect() as there:
        assert sent(there, server.head(Content_Length=100 * MIB) + b" " * MIB)[0] == 413
    with server.connect() as there:
        chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
        assert sent(there, server.head(Transfer_Encoding="chunked") + chunk * 100)[0] == 413
    with server.connect() as there:  # a client that reads nothing before it has sent all
        there.sendall(server.head(Content_Length=100 * MIB) + b" " * 100 * MIB)
        assert received(there).startswith(b"HTTP/1.1 413 ")
    assert server.calls() == 0


def test_a_client_that_never_stops_sending_is_cut_off(server: Server) -> None:
    begun = time.monotonic()
    endless = b"100000\r\n" + b" " * MIB + b"\r\n"
    with server.connect() as there, suppress(ConnectionError):
        there.sendall(server.head(Transfer_Encoding="chunked"))
        while time.monotonic() < begun + 60:
            there.sendall(endless)
    assert time.monotonic() < begun + 40


@pytest.mark.long
def test_a_body_of_single_bytes_takes_no_more_than_another(server: Server) -> None:
    with server.connect() as there:
        there.settimeout(5)
        with suppress(TimeoutError):
            assert sent(there, server.head(Transfer_Encoding="chunked") + b"1\r\n \r\n" * (3 * MIB))[0] in {0, 400}
    server.calls()


def test_endless_headers_are_cut_off(server: Server) -> None:
    for line in (b"a: b\r\n", b"a: " + b"b" * 7000 + b"\r\n"):
        with server.connect() as there:
            head = server.head().removesuffix(b"\r\n")
            assert sent(there, head + line * (50 * MIB // len(line)))[0] == 400
    with server.connect() as there:
        assert sent(there, b"POST /" + b"a" * (50 * MIB))[0] == 400


@pytest.mark.parametrize("start", [b"", b"POST /s"])
def test_a_slow_header_is_given_up(server: Server, start: bytes) -> None:
    begun = time.monotonic()
    with server.connect() as there:
        there.settimeout(0.2)
        there.sendall(start)
        while time.monotonic() < begun + 10:
            try:
                if there.recv(1) == b"":
                    break
            except TimeoutError:
                there.sendall(b"x" if start else b"")
            except (ConnectionResetError, BrokenPipeError):
                break
    assert time.monotonic() - begun < 5


@pytest.mark.long
def test_a_slow_body_is_given_up(server: Server) -> None:
    with server.connect() as there:
        status, _ = sent(there, server.head(Content_Length=1000) + b"{")
        assert status == 400
        assert received(there) == b""


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe\xfd", b'{"model": "\xff"}', b"", b"[]", b"3", b'{"messages": "\\ud800"}', b'{"a": 1e999}'],
    ids=repr,
)
@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_request_is_refused(server: Server, path: str, body: bytes) -> None:
    status, answer = server.post(body, path)
    assert (status, "error" in json.loads(answer)) == (400, True)


def test_addresses_and_headers_of_any_bytes_are_refused_or_served(server: Server) -> None:
    body = json.dumps(CHAT).encode()
    for path in ("/v1/\xff\xfe", "//[", "/v1/chat/completions?" + "a=b&" * 100, "/v1/chat/completions?%ff=%fe"):
        assert server.post(body, path)[0] in {200, 400, 404}
    assert server.post(body, X_Session_Id="\xff\xfe")[0] in {200, 400}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("depth", [450, 900, 100_000])
def test_deep_json_is_refused(server: Server, path: str, depth: int) -> None:
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        deep = opened * depth + b"1" + closed * depth
        good = json.dumps(PATHS[path]).encode()
        for body in (
            deep,
            good[:-1] + b',"tools":[{"functionDeclarations":' + deep + b"}]}",
            good[:-1] + b',"x":' + deep + b"}",
        ):
            assert server.post(body, path)[0] in {400, 413, 200 if depth < 500 else 400}


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS)
def test_ten_thousand_tools_are_served(server: Server, path: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools: list[Any] = [{"name": f"t{i}", "input_schema": schema} for i in range(10_000)]
    if "chat" in path:
        tools = [{"type": "function", "function": {"name": f"t{i}", "parameters": schema}} for i in range(10_000)]
    elif "responses" in path:
        tools = [{"type": "function", "name": f"t{i}", "parameters": schema} for i in range(10_000)]
    elif "gemini" in path or "v1beta" in path:
        tools = [{"functionDeclarations": [{"name": f"t{i}", "parameters": schema} for i in range(10_000)]}]
    assert server.post(json.dumps(PATHS[path] | {"tools": tools}).encode(), path)[0] == 200


@pytest.mark.long
@pytest.mark.parametrize("item", [b"[]", b"{}", b"1", b'{"role":"user","content":""}'])
def test_a_body_of_countless_values_is_refused(server: Server, item: bytes) -> None:
    count = 30 * MIB // (len(item) + 1)
    body = b'{"messages":[' + b",".join([item] * count) + b"]}"
    assert server.post(body)[0] in {400, 413}


@pytest.mark.long
def test_large_bodies_at_once_are_bounded(server: Server) -> None:
    body = b'{"model":"' + b"a" * (30 * MIB) + b'"}'
    with ExitStack() as held:
        open_ones = [held.enter_context(server.connect()) for _ in range(30)]
        for there in open_ones:
            with suppress(ConnectionError):
                there.sendall(server.head(Content_Length=len(body)) + body[: 8 * MIB])
        statuses = [sent(there, b"")[0] for there in open_ones]
    assert set(statuses) <= {0, 400, 429}  # which of them is a matter of who is faster; memory is what counts


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x00" * 1000,
    ],
    ids=["ssh", "tls", "version", "length", "smuggled", "zeros"],
)
def test_garbage_is_refused(server: Server, data: bytes) -> None:
    with server.connect() as there:
        there.sendall(data)
        answer = received(there, whole=True)
    assert answer == b"" or answer.split()[1] in {b"400", b"404"}


def test_broken_chunks_are_refused(server: Server) -> None:
    with server.connect() as there:
        assert sent(there, server.head(Transfer_Encoding="chunked") + b"zz\r\n{}\r\n")[0] == 400


def test_pipelined_requests_are_answered_in_order_and_a_flood_of_them_is_bounded(server: Server) -> None:
    body = json.dumps(CHAT).encode()
    one = server.head(Content_Length=len(body)) + body
    with server.connect() as there:
        there.sendall(one * 5)
        found = b""
        while found.count(b"HTTP/1.1 200") < 5:
            found += there.recv(65536)
    flood = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 20_000
    with server.connect() as there:
        there.settimeout(1)
        try:
            while True:
                there.sendall(flood)
        except (TimeoutError, ConnectionError):
            pass


@pytest.mark.long
def test_connections_beyond_the_most_are_refused_and_the_rest_served(server: Server) -> None:
    refused = 0
    with ExitStack() as stack:
        held = [stack.enter_context(server.connect()) for _ in range(80)]
        time.sleep(0.3)
        for there in held:
            there.setblocking(False)
            with suppress(BlockingIOError):
                refused += there.recv(100).startswith(b"HTTP/1.1 503")
    assert refused == 30
    time.sleep(0.3)
