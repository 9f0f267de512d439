"""The Harbor task with tool servers and skills runs: an agent reads the notes by its server of standard input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.agents.interface import Attempt, Needs
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore

FIXTURE = Path(__file__).parents[1] / "tasks" / "harbor" / "tools-and-skills"
SORT = "LC_ALL=C sort -u > /workspace/sorted.txt"
TOKEN = "ASSAY_FIXTURE_TOKEN"


class Client:
    """Speaks to the task's own server in the sandbox, as a harness does, and sorts what the tool returns."""

    name = "client"
    needs_model = False
    needs, mounts = Needs(processes=64), ()

    async def run(self, attempt: Attempt) -> None:
        assert attempt.workspace is not None
        (server,) = [one for one in attempt.toolbox.servers if one.transport == "stdio"]
        asked = [("initialize", {}), ("tools/list", {}), ("tools/call", {"name": "notes", "arguments": {}})]
        lines = [{"jsonrpc": "2.0", "id": at, "method": name, "params": more} for at, (name, more) in enumerate(asked)]
        sent = "\n".join(map(json.dumps, lines)) + "\n"
        heard = await attempt.workspace.exec(list(server.command), stdin=sent.encode())
        _, tools, notes = [json.loads(line)["result"] for line in heard.stdout.splitlines()]
        assert [tool["name"] for tool in tools["tools"]] == ["notes"]
        text = notes["content"][0]["text"]
        await attempt.shell(["/bin/sh", "-c", f"printf %s '{text}' | {SORT}"])
        attempt.finish("sorted the notes")


async def run_fixture(tmp_path: Path, **fields: Any) -> Trajectory:
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    config = RunConfig(tasks=(str(FIXTURE),), run="r", pass_env=(TOKEN,), **fields)
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    return found


async def test_an_agent_does_the_fixture_by_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "secret-of-the-fixture")
    found = await run_fixture(tmp_path, agent=f"{__file__}:Client")
    assert found.outcome == "pass", found.finished
    assert b"secret-of-the-fixture" not in msgspec.json.encode(found)


@pytest.mark.long
async def test_claude_code_does_the_fixture_by_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_installed: Callable[[str], None]
) -> None:
    """Servers that nobody started, of the fixture's two other transports, are named and do not end the harness."""
    need_installed("claude-code")
    monkeypatch.setenv(TOKEN, "secret-of-the-fixture")
    read = {"tool_calls": [{"name": "mcp__notes__notes", "arguments": {}}]}
    shell = {"command": f"printf 'plum\\npear\\napple\\npear\\n' | {SORT}", "description": "Sorts the notes"}
    (tmp_path / "script.json").write_bytes(
        msgspec.json.encode([read, {"tool_calls": [{"name": "Bash", "arguments": shell}]}, "Done."])
    )
    found = await run_fixture(tmp_path, agent="claude-code", model=f"scripted:{tmp_path / 'script.json'}")
    assert found.outcome == "pass", found.finished
    requests = [msgspec.json.encode(call.request) for call in found.calls]
    assert b"mcp__notes__notes" in requests[0]
    assert b"plum" in requests[1]
    (told,) = [one.data for one in found.evidence if one.kind == "harness"]
    assert told["servers"] == ["notes", "events", "search"]
