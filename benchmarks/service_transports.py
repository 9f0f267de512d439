"""Cost of a call of a service at the server, by transport: in process, through MCP (pipe and HTTP) and through HTTP.

Two rows show what a transport costs before it calls anything: a bare asyncio protocol that writes a fixed response
(the event loop and the kernel, the limit of any server on asyncio), and an HTTP request that calls nothing.

The client is another process that sends prepared requests over one connection and reads the answers; its CPU is not
counted. A call reads one row of a table of a thousand; the in-process row is the same call without a transport.

    python -m benchmarks.service_transports
    python -m benchmarks.service_transports --quick
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.serving import serve_http, serve_lines
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.world import ServiceWorld
from benchmarks._measure import QUIET_US, REFERENCE, reference_us
from benchmarks._report import Report, Target, options

HOW = (
    "one core for the server, the client on another; medians over rounds; CPU microseconds of the server's process; "
    f"bars are of a machine whose reference loop takes {QUIET_US} us a turn, and measured times are scaled to it"
)
COLUMNS = ("what", "count", "cpu_us", "transport_us")
FLOOR = "an HTTP request that calls nothing"
BARE = "a bare asyncio protocol"
BARE_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + b'{"status":"ok"}'
MOST_US = 100.0
"""Largest cost that a transport may add to a call."""
CLIENT = """
import socket, sys
port, count, length = (int(word) for word in sys.argv[1:])
request = sys.stdin.buffer.read(length)
with socket.create_connection(("127.0.0.1", port)) as connection:
    file = connection.makefile("rb")
    for _ in range(count):
        connection.sendall(request)
        assert file.readline().split()[1] == b"200"
        size = 0
        while (line := file.readline()) != b"\\r\\n":
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        file.read(size)
"""
LINES = """
import os, sys
count, length = (int(word) for word in sys.argv[1:])
request = sys.stdin.buffer.read(length)
for _ in range(count):
    os.write(3, request)
    answer = b""
    while not answer.endswith(b"\\n"):
        answer += os.read(4, 1 << 16)
"""
notes = Service("notes", "Notes.")
NoteId = Annotated[str, identifier("note", "N-")]


@notes.table()
class Note(msgspec.Struct, frozen=True):
    """A note."""

    id: NoteId
    text: str


@notes.view()
def read_note(tx: Transaction, note_id: NoteId) -> Note:
    """Reads a note."""
    return tx.get(Note, note_id)


@notes.generator
def fill(make: Generator, _knobs: object) -> None:
    make.insert_all([Note(make.new_id(Note), f"note {number}") for number in range(1_000)])


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    asked = options("service_transports", __doc__ or "").parse_args(words)
    calls, rounds = (500, 3) if asked.quick else (5_000, 9)
    found = asyncio.run(measure(calls, rounds))
    plain = found[0]["cpu_us"]
    slower = next(row["cpu_us"] for row in found if row["what"] == REFERENCE) / QUIET_US
    calling = [row for row in found[1:] if row["what"] not in (BARE, FLOOR, REFERENCE)]
    for row in calling:
        row["transport_us"] = row["cpu_us"] - plain
    targets = [Target(f"added by {row['what']}", "us", MOST_US, row["transport_us"] / slower) for row in calling]
    Report("service_transports", HOW, found, targets, {}).finish(COLUMNS, asked.into)


async def measure(calls: int, rounds: int) -> list[dict[str, Any]]:
    """Returns a row for each way to call."""
    world = ServiceWorld.of([notes], 1)
    first: str = world.database.rows(world.composition.by_row[Note])[0][0]
    arguments = {"note_id": first}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "read_note", "arguments": arguments},
    }
    requests = {
        FLOOR: b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "an MCP call over HTTP": _request("/mcp", message),
        "an HTTP call": _request("/actions/read_note", arguments),
    }

    async def call_in_process() -> None:
        for _ in range(calls):
            await world.call("read_note", arguments)

    async def call_by_pipe() -> None:
        await _run_lines(ServedTools(world), calls, json.dumps(message).encode() + b"\n")

    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "a call in process": call_in_process,
        "an MCP call over a pipe": call_by_pipe,
    }
    bare = await asyncio.get_running_loop().create_server(_BareProtocol, "127.0.0.1", 0)
    listener = socket.create_server(("127.0.0.1", 0))
    async with bare, serve_http(ServedTools(world), listener):
        served, plain = (one.getsockname()[1] for one in (listener, bare.sockets[0]))
        ways[BARE] = partial(_run_client, plain, calls, requests[FLOOR])
        ways |= {what: partial(_run_client, served, calls, request) for what, request in requests.items()}
        found: dict[str, list[float]] = {what: [] for what in ways}
        references = []
        for _ in range(rounds):
            references.append(await asyncio.to_thread(reference_us))
            for what, act in ways.items():
                found[what].append(await _cost_us(act, calls))
    rows = [
        {"what": what, "count": calls * rounds, "cpu_us": statistics.median(costs)} for what, costs in found.items()
    ]
    return [*rows, {"what": REFERENCE, "count": 5_000 * rounds, "cpu_us": statistics.median(references)}]


class _BareProtocol(asyncio.Protocol):
    """Answers whatever it reads with the same bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        self.write(BARE_RESPONSE)


async def _run_client(port: int, calls: int, request: bytes) -> None:
    words = (sys.executable, "-c", CLIENT, str(port), str(calls), str(len(request)))
    client = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE)
    await client.communicate(request)
    if client.returncode != 0:
        raise RuntimeError("the client failed")


async def _run_lines(tools: ServedTools, calls: int, request: bytes) -> None:
    """Serves a client over two pipes, as over its standard streams."""
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    words = (sys.executable, "-c", f"import os; os.dup2({ask}, 3); os.dup2({told}, 4)\n{LINES}")
    client = await asyncio.create_subprocess_exec(
        *words, str(calls), str(len(request)), stdin=asyncio.subprocess.PIPE, pass_fds=(ask, told)
    )
    os.close(ask)
    os.close(told)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(asked, "rb"))
    serving = loop.create_task(serve_lines(tools, reader, lambda answer: _write_all(tell, answer)))
    await client.communicate(request)
    await serving
    source.close()
    os.close(tell)
    if client.returncode != 0:
        raise RuntimeError("the client failed")


def _write_all(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def _request(path: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def _cost_us(act: Callable[[], Awaitable[object]], count: int) -> float:
    """Returns the CPU time of this process alone."""
    before = time.process_time()
    await act()
    return (time.process_time() - before) / count * 1e6


if __name__ == "__main__":
    main()
