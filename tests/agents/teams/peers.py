"""Peers of A2A seats, for tests: how they find their seat, and plain JSON-RPC."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from assay.agents.a2a.agent import Announcement
from assay.agents.clue_solver import Knowledge, read_clues
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore, audit

TASK = "family:split-constraints,n=1,variables=4,values=3,seed=6"


@asynccontextmanager
async def seated(tmp_path: Path, *, tools: list[str] | None = None, **options: Any) -> AsyncIterator[Announcement]:
    """Runs a team of a rule-made teller and a seat for a guest; waits for the run's end on leaving."""
    seat = {"announce": str(tmp_path / "peers"), "name": "guest", "wait_s": 5.0, "linger_s": 0.2, **options}
    roles = [
        {"name": "teller", "agent": "clue-solver", "tools": []},
        {"name": "guest", "agent": "a2a", "options": seat, "tools": ["*"] if tools is None else tools},
    ]
    channels = [{"name": "table", "writers": ["teller"]}]
    config = RunConfig(tasks=(TASK,), agent="team", agent_options={"roles": roles, "channels": channels}, run="r")
    running = asyncio.create_task(start_run(config, Settings(tmp_path / "cache", tmp_path / "store"), Tally()))
    while not (found := list((tmp_path / "peers").glob("*.json"))):
        assert not running.done()
        await asyncio.sleep(0.01)
    assert found[0].stat().st_mode & 0o077 == 0
    yield msgspec.json.decode(found[0].read_bytes(), type=Announcement)
    await running


def recorded(tmp_path: Path) -> Trajectory:
    """Returns the attempt, whose record must be whole."""
    assert audit(tmp_path / "store", "r") == ()
    with RunStore.open(tmp_path / "store", "r") as store:
        (row,) = store.attempts()
        assert row.final
        return store.trajectory(row.chain)


class Peer:
    """Sends JSON-RPC to a seat."""

    def __init__(self, at: Announcement, session: aiohttp.ClientSession) -> None:
        self.at, self.session = at, session
        self.headers = {"Authorization": f"Bearer {at.token}", "A2A-Version": "1.0"}
        self.sent = 0

    async def post(self, body: bytes, **headers: str) -> tuple[int, Any]:
        sent = {**self.headers, **headers}
        async with self.session.post(self.at.url, data=io.BytesIO(body), headers=sent) as response:
            text = await response.read()
        return response.status, json.loads(text) if text else None

    async def call(self, method: str, params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, body = await self.post(json.dumps(request).encode())
        assert status == 200
        return body.get("result", body.get("error"))

    async def send(self, *parts: dict[str, Any], **fields: Any) -> Any:
        self.sent += 1
        message = {"messageId": f"m{self.sent}", "role": "ROLE_USER", "parts": list(parts), **fields}
        return await self.call("SendMessage", {"message": message})


async def leave(at: Announcement) -> None:
    """Takes a seat and gives it up at once."""
    async with aiohttp.ClientSession() as session:
        peer = Peer(at, session)
        task = (await peer.send({"text": "hello"}))["task"]
        await peer.call("CancelTask", {"id": task["id"]})


def use(tool: str, **arguments: Any) -> dict[str, Any]:
    """Returns the part that calls a tool."""
    return {"data": {"tool": tool, "arguments": arguments}}


def results(task: dict[str, Any]) -> list[Any]:
    """Returns the results of the last turn."""
    return [part["data"]["result"] for part in task["status"]["message"]["parts"] if "data" in part]


def solution(instruction: str, messages: str) -> dict[str, int]:
    """Returns the assignment that the clues of both texts leave."""
    known = Knowledge("ABCD", 3)
    known.add([*read_clues(instruction), *read_clues(messages)])
    return dict(zip("ABCD", known.fitting[0], strict=True))
