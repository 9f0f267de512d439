"""A seat of a team served over A2A: the SDK's client, and peers that break every rule."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from assay.agents.a2a.protocol import COMPLETED, INPUT_REQUIRED
from assay.agents.building import build_agent
from assay.errors import UserError
from tests.agents.teams.peers import Peer, leave, recorded, results, seated, solution, use


async def solve(peer: Peer) -> Any:
    """Plays the guest's part to the end; returns the last task."""
    task = (await peer.send({"text": "hello"}))["task"]
    instruction = task["status"]["message"]["parts"][0]["text"]
    ids = {"taskId": task["id"], "contextId": task["contextId"]}
    heard = results((await peer.send(use("team_read"), **ids))["task"])[0]
    for name, value in solution(instruction, heard).items():
        task = (await peer.send(use("assign", variable=name, value=value), **ids))["task"]
    return task


async def test_a_peer_solves_its_part_and_the_record_names_it(tmp_path: Path) -> None:
    async with seated(tmp_path) as at, aiohttp.ClientSession() as session:
        task = await solve(Peer(at, session))
    assert task["status"]["state"] == COMPLETED
    made = recorded(tmp_path)
    assert made.outcome == "pass"
    assert {step.actor_name for step in made.steps if step.tool_calls[0].name == "assign"} == {"guest"}
    assert not list((tmp_path / "peers").iterdir())


async def test_a_peer_has_the_rights_of_its_role(tmp_path: Path) -> None:
    async with seated(tmp_path, tools=[]) as at, aiohttp.ClientSession() as session:
        peer = Peer(at, session)
        task = (await peer.send({"text": "hello"}))["task"]
        tools = [one["name"] for one in task["status"]["message"]["parts"][1]["data"]["tools"]]
        assert tools == ["team_read"]
        sent = await peer.send(use("assign", variable="A", value=10**40), use("team_send", channel="table", text="x"),
                               taskId=task["id"], metadata={"actor": "teller"})  # fmt: skip
        assert [part["data"]["error"] for part in sent["task"]["status"]["message"]["parts"]] == [True, True]
        await peer.call("CancelTask", {"id": task["id"]})
    made = recorded(tmp_path)
    denied = [e.data["tool"] for e in made.evidence if e.kind == "guard" and e.data["actor"] == "guest"]
    assert denied == ["assign", "team_send"]
    assert all(step.actor_name == "guest" for step in made.steps if step.tool_calls and step.message is None
               and step.tool_calls[0].id.startswith("p"))  # fmt: skip


async def test_a_file_that_waits_in_the_folder_does_not_get_the_token(tmp_path: Path) -> None:
    folder, other = tmp_path / "peers", tmp_path / "other"
    folder.mkdir()
    other.write_text("kept")
    async with seated(tmp_path) as at:
        name = next(folder.glob("*.json")).with_suffix(".new").name
        await leave(at)
    shutil.rmtree(tmp_path / "store")  # the second run has the same seeds
    (folder / name).symlink_to(other)
    async with seated(tmp_path) as at:
        assert at.token
        await leave(at)
    assert other.read_text() == "kept"


async def test_a_file_that_another_run_announced_meanwhile_stays(tmp_path: Path) -> None:
    async with seated(tmp_path) as at:
        (path,) = (tmp_path / "peers").glob("*.json")
        path.write_text("of another run")
        await leave(at)
    assert path.read_text() == "of another run"


FRAMES: list[tuple[bytes, int]] = [
    (b"\xff\xfe not json", -32700),
    (b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b'{"jsonrpc": "2.0", "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "Explode"}', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": []}}', -32602),
    (
        b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": []}}}',
        -32602,
    ),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "task-of-another"}}', -32001),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": "task-of-another"}}', -32001),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": {}}', -32003),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}', -32007),
]


async def test_a_hostile_peer_is_refused_and_leaves_a_whole_record(tmp_path: Path) -> None:
    async with seated(tmp_path) as at, aiohttp.ClientSession() as session:
        peer = Peer(at, session)
        for frame, code in FRAMES:
            status, body = await peer.post(frame)
            assert (status, body["error"]["code"]) == (200, code), frame[:60]
        assert (await peer.post(b"{}", Authorization="Bearer of-somebody-else"))[0] == 401
        assert (await peer.post(b"{}", **{"A2A-Version": "0.3"}))[1]["error"]["code"] == -32009
        assert (await peer.post(b" " * 10_000_000))[0] == 413
        assert (await lie(peer)) == [-32001, -32602, -32602, -32005, -32602]
        for frame in odd_arguments():
            status, body = await peer.post(frame)
            assert (status, body["error"]["code"] in (-32602, -32700)) == (200, True), frame[:200]
        reading = await endless(at.url, at.token)
        task = await solve(peer)
        assert task["status"]["state"] == COMPLETED
        late = await peer.send({"text": "too late"}, taskId=task["id"])
        assert late["code"] == -32004
        assert await peer.call("CancelTask", {"id": task["id"]}) == {"code": -32002, "message": "the task has ended"}
        reading.close()
    made = recorded(tmp_path)
    assert made.outcome == "pass"
    (counted,) = [item.data for item in made.evidence if item.kind == "a2a_peer"]
    assert counted["requests"]["refused: too large"] == 1
    assert counted["requests"]["refused: no token"] == 1
    assert counted["requests"]["refused: -32001"] == 3
    assert counted["actor"] == "guest"


async def lie(peer: Peer) -> list[int]:
    """Sends messages with false ids and parts that are not taken; returns the errors' codes."""
    lies: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (use("assign", variable="A", value=1), {"taskId": "task-of-teller"}),
        (use("assign", variable="A", value=1), {"contextId": "context-of-teller"}),
        ({"data": {"tool": 7}}, {}),
        ({"raw": "AAAA"}, {}),
        ({"text": "x" * 30_000}, {}),
    ]
    return [(await peer.send(part, **fields))["code"] for part, fields in lies]


def odd_arguments() -> list[bytes]:
    """Returns messages whose arguments no record could hold, or almost none."""
    values = [b"1e400", b"[" * 700 + b"]" * 700, b'"\\ud800"']
    call = b'{"tool": "assign", "arguments": {"variable": "A", "value": %b}}'
    send = b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "odd", '
    return [send + b'"parts": [{"data": %b}]}}}' % (call % value) for value in values]


async def endless(url: str, token: str) -> socket.socket:
    """Begins a request whose chunked body never ends, over a connection that stays open."""
    host, port = "127.0.0.1", int(url.rstrip("/").rpartition(":")[2])
    connection = socket.create_connection((host, port))
    head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nA2A-Version: 1.0\r\n"
    connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + b'4\r\n{"a"\r\n' * 50)
    await asyncio.sleep(0.05)
    return connection


async def test_a_message_that_is_sent_twice_acts_once(tmp_path: Path) -> None:
    async with seated(tmp_path) as at, aiohttp.ClientSession() as session:
        peer = Peer(at, session)
        task = (await peer.send({"text": "hello"}))["task"]
        for _ in range(3):
            peer.sent = 7
            again = await peer.send(use("assign", variable="A", value=1), taskId=task["id"])
            assert again["task"]["status"]["state"] == INPUT_REQUIRED
        assert (await peer.send(use("assign", variable="A", value=1)))["code"] == -32602
        await peer.call("CancelTask", {"id": task["id"]})
    made = recorded(tmp_path)
    assert [call.name for step in made.steps for call in step.tool_calls].count("assign") == 1


async def test_the_shown_history_is_bounded_in_bytes(tmp_path: Path) -> None:
    async with seated(tmp_path) as at, aiohttp.ClientSession() as session:
        peer = Peer(at, session)
        task = (await peer.send({"text": "hello"}))["task"]
        for _ in range(4):
            part = {**use("assign", variable="A", value=1)["data"], "more": "x" * 600_000}
            task = (await peer.send({"data": part}, taskId=task["id"]))["task"]
        assert len(json.dumps(task["history"])) < 1_100_000
        assert task["history"][-1]["role"] == "ROLE_AGENT"
        await peer.call("CancelTask", {"id": task["id"]})


async def test_a_silent_peer_ends_its_part_and_the_attempt_is_judged(tmp_path: Path) -> None:
    began = time.monotonic()
    async with seated(tmp_path, wait_s=1.0):
        pass
    made = recorded(tmp_path)
    assert (made.outcome, made.finished and made.finished.broke) == ("fail", None)
    assert time.monotonic() - began < 20


async def test_a_peer_that_cancels_leaves_the_others_to_go_on(tmp_path: Path) -> None:
    async with seated(tmp_path) as at, aiohttp.ClientSession() as session:
        peer = Peer(at, session)
        task = (await peer.send({"text": "hello"}))["task"]
        gone = await peer.call("CancelTask", {"id": task["id"]})
        assert gone["status"]["state"] == "TASK_STATE_CANCELED"
    assert recorded(tmp_path).outcome == "fail"


async def test_a_seat_without_a_folder_to_announce_it_is_refused() -> None:
    with pytest.raises(UserError, match="announce is missing"):
        build_agent("a2a")


async def test_the_sdks_client_sends_streams_gets_lists_subscribes_and_cancels(tmp_path: Path) -> None:
    pytest.importorskip("a2a")
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import a2a_pb2 as pb
    from google.protobuf.json_format import MessageToDict, ParseDict

    def message(number: int, *parts: dict[str, Any], **ids: str) -> Any:
        given = {"messageId": f"sdk-{number}", "role": "ROLE_USER", "parts": list(parts), **ids}
        return ParseDict({"message": given}, pb.SendMessageRequest())

    async def last(events: Any) -> dict[str, Any]:
        return [MessageToDict(event) async for event in events][-1]

    async with seated(tmp_path, linger_s=1.0) as at, httpx.AsyncClient() as http:
        http.headers["Authorization"] = f"Bearer {at.token}"
        card = await A2ACardResolver(http, at.url).get_agent_card()
        plain = ClientFactory(ClientConfig(streaming=False, httpx_client=http)).create(card)
        streaming = ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create(card)
        first = (await last(plain.send_message(message(1, {"text": "hello"}))))["task"]
        ids = {"taskId": first["id"], "contextId": first["contextId"]}
        subscribed = asyncio.create_task(last(streaming.subscribe(pb.SubscribeToTaskRequest(id=first["id"]))))
        await asyncio.sleep(0.1)
        read = await last(streaming.send_message(message(2, use("team_read"), **ids)))
        heard = json.dumps(read)
        got = MessageToDict(await plain.get_task(pb.GetTaskRequest(id=first["id"])))
        assert got["status"]["state"] == INPUT_REQUIRED
        listed = MessageToDict(await plain.list_tasks(pb.ListTasksRequest()))
        assert [one["id"] for one in listed["tasks"]] == [first["id"]]
        instruction = first["status"]["message"]["parts"][0]["text"]
        values = solution(instruction, heard.encode().decode("unicode_escape"))
        for number, (name, value) in enumerate(values.items(), 3):
            task = await last(plain.send_message(message(number, use("assign", variable=name, value=value), **ids)))
        assert task["task"]["status"]["state"] == COMPLETED
        assert (await subscribed)["statusUpdate"]["status"]["state"] == COMPLETED
        with pytest.raises(Exception, match="the task has ended"):
            await plain.cancel_task(pb.CancelTaskRequest(id=first["id"]))
    assert recorded(tmp_path).outcome == "pass"
