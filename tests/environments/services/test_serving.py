"""The transports over real sockets and pipes: whatever a client sends, the state is sound and the server goes on."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from assay.environments.services.http import openapi
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.serving import MOST_BODY, serve_http, serve_lines
from assay.environments.services.world import ServiceWorld
from assay.records import Observation

from .shop import FIRST, open_world

pytestmark = pytest.mark.quick
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add_order", "arguments": {"total": 5}}}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@asynccontextmanager
async def serving(tools: ServedTools) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with serve_http(tools, listener):
        yield listener.getsockname()[1]


async def send(port: int, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Sends bytes and returns the status, headers and body of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    return int(head[0].split()[1]), headers, body


def request(method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    given = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{given}\r\n"
    return head.encode() + body


async def answer(port: int, method: str, target: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    status, _, received = await send(port, request(method, target, body, **headers))
    return status, json.loads(received)


REFUSALS = [
    ("cancel_order", {"order_id": "x"}, 404, "not_found"),
    ("nope", {}, 404, "not_found"),
    ("add_order", {"total": "many"}, 422, "invalid"),
    ("add_order", {"total": 1, "more": 2}, 422, "invalid"),
    ("close_shop", {}, 403, "forbidden"),
    ("add_order", [], 400, "invalid"),
]


@pytest.mark.parametrize(("name", "arguments", "status", "code"), REFUSALS)
async def test_refusals_have_the_status_of_their_code(name: str, arguments: Any, status: int, code: str) -> None:
    world = open_world()
    digest = world.database.digest()
    async with serving(ServedTools(world)) as port:
        got, body = await answer(port, "POST", f"/actions/{name}", json.dumps(arguments).encode())
    assert (got, body["code"], set(body)) == (status, code, {"code", "message"})
    assert world.database.digest() == digest


async def test_conflict_and_failure_have_their_statuses() -> None:
    async def fail(name: str, arguments: dict[str, Any]) -> Observation:
        raise RuntimeError

    cancel = json.dumps({"order_id": FIRST}).encode()
    async with serving(ServedTools(open_world())) as port:
        assert (await answer(port, "POST", "/actions/cancel_order", cancel))[0] == 200
        assert (await answer(port, "POST", "/actions/cancel_order", cancel))[0] == 409
    async with serving(ServedTools(open_world(), fail)) as port:
        status, body = await answer(port, "POST", "/actions/cancel_order", cancel)
    assert (status, body["code"]) == (503, "unavailable")


async def test_text_results_are_json_strings() -> None:
    async with serving(ServedTools(open_world())) as port:
        assert await answer(port, "POST", "/actions/current_time") == (200, "2026-03-02T09:00")


async def test_pages_are_read_by_get() -> None:
    async with serving(ServedTools(open_world())) as port:
        assert await answer(port, "GET", "/health") == (200, {"status": "ok"})
        assert await answer(port, "GET", "/openapi.json") == (200, openapi(ServedTools(open_world())))
        _, headers, body = await send(port, request("GET", "/policy"))
        assert (headers["content-type"], body) == ("text/plain; charset=utf-8", b"Cancel only pending orders.")
        assert (await answer(port, "GET", "/nothing"))[0] == 404


def test_openapi_describes_each_action() -> None:
    world = open_world()
    document = openapi(ServedTools(world))
    assert document["openapi"] == "3.1.0"
    assert list(document["paths"]) == [f"/actions/{spec.name}" for spec in world.specs()]
    cancel = document["paths"]["/actions/cancel_order"]["post"]
    assert cancel["summary"] == "Cancels a pending order"
    schema = cancel["requestBody"]["content"]["application/json"]["schema"]
    assert (schema["type"], schema["required"]) == ("object", ["order_id"])
    refusal = cancel["responses"]["409"]["$ref"].removeprefix("#/").split("/")
    assert document[refusal[0]][refusal[1]][refusal[2]]["content"]


WRONG = [
    (request("GET", "/mcp"), 405),
    (request("DELETE", "/mcp"), 405),
    (request("GET", "/actions/add_order"), 405),
    (request("POST", "/health", b"{}"), 405),
    (request("POST", "/actions/add_order", b"{"), 400),
    (request("POST", "/actions/add_order", b'{"total": "\xff"}'), 400),
    (request("POST", "/actions/add_order", b"[" * 50_000), 400),
    (request("POST", "/mcp", b"[" * 50_000), 400),
    (request("POST", "/mcp", b"{}", Origin="https://example.org"), 403),
    (request("POST", "/mcp", b"{}", Content_Encoding="gzip"), 415),
    (request("POST", "/mcp", b" " * (MOST_BODY + 1)), 413),
    (b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999999999\r\n\r\n", 413),
    (b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MOST_BODY + 1)
     + b" " * (MOST_BODY + 1) + b"\r\n0\r\n\r\n", 413),
    (b"GARBAGE\r\n\r\n", 400),
]  # fmt: skip


@pytest.mark.parametrize(("data", "status"), WRONG, ids=range(len(WRONG)))
async def test_wrong_requests_are_refused_and_change_nothing(data: bytes, status: int) -> None:
    world = open_world()
    digest = world.database.digest()
    async with serving(ServedTools(world)) as port:
        assert (await send(port, data))[0] == status
        assert (await answer(port, "POST", "/mcp", PING))[1]["result"] == {}
    assert world.database.digest() == digest


async def test_client_that_ends_within_a_request_has_called_nothing() -> None:
    world = open_world()
    whole = request("POST", "/mcp", json.dumps(CALL).encode())
    async with serving(ServedTools(world)) as port:
        for length in (10, len(whole) // 2, len(whole) - 1):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(whole[:length])
            await writer.drain()
            writer.close()
        assert (await answer(port, "GET", "/health"))[0] == 200
    assert world.calls == []


async def test_client_that_ends_before_the_response_has_called_once() -> None:
    world = open_world()
    async with serving(ServedTools(world)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("POST", "/mcp", json.dumps(CALL).encode()))
        await writer.drain()
        writer.transport.abort()
        assert (await answer(port, "GET", "/health"))[0] == 200
        while not world.calls:
            await asyncio.sleep(0.001)
    assert [call.action for call in world.calls] == ["add_order"]


class Slow(ServiceWorld):
    """A world that other tasks run in the middle of."""

    running = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        assert self.running == 0
        self.running += 1
        await asyncio.sleep(0)
        self.running -= 1
        return self.act(name, arguments)


async def test_concurrent_calls_happen_one_after_the_other() -> None:
    world = open_world()
    world.__class__ = Slow
    async with serving(ServedTools(world)) as port, asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(answer(port, "POST", "/mcp", json.dumps(CALL).encode()))
            group.create_task(answer(port, "POST", "/actions/add_order", b'{"total": 5}'))
    assert len({call.digest for call in world.calls}) == len(world.calls) == 40
    assert not any(call.code for call in world.calls)


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
async def test_lines_are_answered_whatever_their_pieces(size: int) -> None:
    huge = b"x" * (2 * MOST_BODY) if size > 7 else b"{"
    data = PING + b"\n\n" + huge + b"\r\n" + json.dumps(CALL).encode() + b"\r\n\xff\n" + PING
    reader, written = asyncio.StreamReader(), bytearray()
    world = open_world()
    served = asyncio.create_task(serve_lines(ServedTools(world), reader, written.extend))
    for at in range(0, len(data), size):
        reader.feed_data(data[at : at + size])
    reader.feed_eof()
    await served
    answers = [json.loads(line) for line in written.splitlines()]
    assert [one["error"]["code"] if "error" in one else "ok" for one in answers] == ["ok", -32700, "ok", -32700]
    assert len(world.calls) == 1  # an unfinished last line is no message
