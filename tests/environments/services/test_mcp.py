"""The MCP server, without a transport: what recorded clients sent is answered as it was answered to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.environments.interface import ToolSpec
from assay.environments.services.mcp import McpServer
from assay.environments.services.served_tools import ServedTools
from assay.records import Observation

from .shop import FIRST, open_world

pytestmark = pytest.mark.quick
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
SERVER_META = {"io.modelcontextprotocol/serverInfo": {"name": "airline", "version": "1.0"}}


class Airline:
    """The tools of the recorded exchanges."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def specs(self) -> tuple[ToolSpec, ...]:
        schema = {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]}
        return (ToolSpec("get_user", "Looks up a user.", schema), ToolSpec("cancel", "Cancels a reservation.", {}))

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        self.calls.append(name)
        if name == "get_user":
            return Observation('{"user_id":"u1","name":"Mia"}')
        return Observation("Reservation not found" if name == "cancel" else f"Unknown tool: {name}", error=True)

    async def digest(self) -> None:
        return None


class Many(Airline):
    """Ten thousand tools."""

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec(f"tool_{at}", "A tool.", {}) for at in range(10_000))


def airline() -> McpServer:
    tools = ServedTools(Airline())
    tools.name, tools.policy = "airline", "Policy text."
    return McpServer(tools)


def encode(method: str, params: Any = None, number: Any = 1, **more: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, **more}
    return json.dumps(message if params is None else {**message, "params": params}).encode()


async def ask(server: McpServer, data: bytes, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    reply = await server.handle(data, headers)
    return reply.status, json.loads(reply.body) if reply.body else None


def recorded_answer(response: dict[str, Any]) -> Any:
    """Returns the message of a recorded response, which may be an event of a stream."""
    text = response["body"].split("data: ")[-1].strip()
    return json.loads(text) if text else None


def comparable(answer: Any) -> Any:
    """Leaves out what the recorded server adds of its own: structured copies of texts, and the schemas' wording."""
    if answer is None or "result" not in answer:
        return answer
    result = {key: value for key, value in answer["result"].items() if key != "structuredContent"}
    if "tools" in result:
        result["tools"] = [(tool["name"], tool["description"]) for tool in result["tools"]]
    return {**answer, "result": result}


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_recorded_clients_get_the_recorded_answers(era: str, shared_data: Path) -> None:
    server = airline()
    lines = (shared_data / "environments" / "mcp-wire" / f"http-{era}.jsonl").read_text().splitlines()
    for exchange in map(json.loads, lines):
        request, response = exchange["request"], exchange["response"]
        if request["line"].startswith("POST"):
            status, answer = await ask(server, json.dumps(request["body"]).encode(), request["headers"])
            assert (status, comparable(answer)) == (
                int(response["line"].split()[1]),
                comparable(recorded_answer(response)),
            )


BROKEN = [
    (b"", -32700),
    (b"{", -32700),
    (b'"\xff"', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\xff"}', -32700),
    (b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b"[" + encode("ping") + b"]", -32600),
    (b"7", -32600),
    (encode("ping", jsonrpc="1.0"), -32600),
    (b'{"id":1,"method":"ping"}', -32600),
    (encode("ping", number=None), -32600),
    (encode("ping", number=True), -32600),
    (encode("ping", number=1.5), -32600),
    (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    (encode("ping", params=[]), -32602),
    (encode("resources/list"), -32601),
    (encode("tools/list", params={"cursor": "-1"}), -32602),
    (encode("tools/list", params={"cursor": 0}), -32602),
    (encode("tools/list", params={"cursor": "1"}), -32602),
    (encode("tools/call"), -32602),
    (encode("tools/call", params={"name": ["cancel_order"]}), -32602),
    (encode("tools/call", params={"name": "cancel_order", "arguments": [1]}), -32602),
    (encode("tools/call", params={"name": "clock", "arguments": {}}), -32602),
    (encode("tools/call", params={"name": "ping", "_meta": META}), -32602),
    (encode("tools/call", params={"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}), -32602),
    (encode("ping", params={"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}}), -32022),
]


@pytest.mark.parametrize(("data", "code"), BROKEN, ids=range(len(BROKEN)))
async def test_broken_messages_get_errors_and_change_nothing(data: bytes, code: int) -> None:
    world = open_world()
    server, digest = McpServer(ServedTools(world)), world.database.digest()
    _, answer = await ask(server, data)
    assert (answer["jsonrpc"], answer["error"]["code"]) == ("2.0", code)
    assert world.database.digest() == digest
    assert (await ask(server, encode("ping")))[1] == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        ({}, None, 200),
        ({"mcp-protocol-version": "2025-11-25"}, -32020, 400),
        ({"mcp-method": "tools/list"}, -32020, 400),
        ({"mcp-name": "list_orders"}, -32020, 400),
        ({"mcp-name": "=?base64?Y2FuY2VsX29yZGVy?="}, None, 200),
        ({"mcp-name": "=?base64?%%%?="}, -32020, 400),
    ],
)
async def test_headers_repeat_the_message(change: dict[str, str], code: int | None, status: int) -> None:
    server = McpServer(ServedTools(open_world()))
    known = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "cancel_order"}
    params = {"name": "cancel_order", "arguments": {"order_id": FIRST}, "_meta": META}
    got, answer = await ask(server, encode("tools/call", params), {**known, **change})
    assert (got, answer.get("error", {}).get("code")) == (status, code)


async def test_statuses_depend_on_the_era() -> None:
    server = McpServer(ServedTools(open_world()))
    old = await ask(server, encode("nope"), {"mcp-protocol-version": "2025-11-25"})
    new = await ask(
        server,
        encode("nope", {"_meta": META}),
        {"mcp-protocol-version": "2026-07-28", "mcp-method": "nope"},
    )
    assert (old[0], new[0]) == (200, 404)
    assert (await ask(server, encode("nope"), {"mcp-protocol-version": "2031-01-01"}))[0] == 400


@pytest.mark.parametrize("data", [encode("notifications/initialized").replace(b'"id": 1, ', b""),
                                  b'{"jsonrpc":"2.0","id":1,"result":{}}',
                                  encode("tools/call", {"name": "close_shop"}).replace(b'"id": 1, ', b"")])  # fmt: skip
async def test_notifications_and_responses_have_no_effect(data: bytes) -> None:
    world = open_world()
    assert await ask(McpServer(ServedTools(world)), data) == (202, None)
    assert world.calls == []


async def test_refused_calls_are_results_for_the_model() -> None:
    server = McpServer(ServedTools(open_world()))
    _, answer = await ask(server, encode("tools/call", {"name": "cancel_order", "arguments": {"order_id": "x"}}))
    assert answer["result"] == {
        "content": [{"type": "text", "text": "Error (not_found): There is no order 'x'."}],
        "isError": True,
    }


async def test_ten_thousand_tools_are_listed_by_pages() -> None:
    server, names, params = McpServer(ServedTools(Many())), [], {}
    while True:
        _, answer = await ask(server, encode("tools/list", params))
        names += [tool["name"] for tool in answer["result"]["tools"]]
        if "nextCursor" not in answer["result"]:
            break
        params = {"cursor": answer["result"]["nextCursor"]}
    assert names == [f"tool_{at}" for at in range(10_000)]


async def test_views_are_marked_as_reading() -> None:
    _, answer = await ask(McpServer(ServedTools(open_world())), encode("tools/list"))
    hints = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in answer["result"]["tools"]}
    assert {name for name, reads in hints.items() if reads} == {"current_time", "list_orders"}
    assert all(tool["inputSchema"]["type"] == "object" for tool in answer["result"]["tools"])


@pytest.mark.parametrize(("wanted", "given"), [("2025-03-26", "2025-03-26"), ("1999-01-01", "2025-11-25")])
async def test_handshake_agrees_on_a_version(wanted: str, given: str) -> None:
    _, answer = await ask(airline(), encode("initialize", {"protocolVersion": wanted}))
    assert answer["result"]["protocolVersion"] == given
    assert answer["result"]["instructions"] == "Policy text."


async def test_failure_of_the_world_does_not_end_the_server() -> None:
    failures: list[Exception] = []

    async def fail(name: str, arguments: dict[str, Any]) -> Observation:
        raise RuntimeError("broken")

    server = McpServer(ServedTools(open_world(), fail, failures.append))
    _, answer = await ask(server, encode("tools/call", {"name": "list_orders"}))
    assert answer["result"]["isError"]
    assert "broken" not in answer["result"]["content"][0]["text"]
    assert len(failures) == 1
