"""Real harnesses, untouched, act on a service from a sandbox by MCP, and on the MCP servers of a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.attempt.test_served_world import CANCEL, calls_of, digest_after, shop_task

CALL = {"tool_calls": [{"name": f"mcp__service__{CANCEL[0]}", "arguments": CANCEL[1]}]}
"""The model's call of the tool that the MCP server gives."""


@pytest.mark.long
@pytest.mark.parametrize("harness", ["claude-code", "codex", "pi"])
async def test_harness_does_a_task_of_a_service(
    harness: str, tmp_path: Path, need_installed: Callable[[str], None]
) -> None:
    need_installed(harness)
    (tmp_path / "script.json").write_bytes(msgspec.json.encode([CALL, "Done."]))
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    config = RunConfig(tasks=("-",), agent=harness, model=f"scripted:{tmp_path / 'script.json'}", run="r")
    await start_run(config, settings, Tally(), tasks=(shop_task(),))
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    assert found.outcome == "pass", found.finished
    assert (*CANCEL, digest_after(CANCEL)) in calls_of(found)
    (told,) = [one.data for one in found.evidence if one.kind == "harness"]
    assert told["servers"] == ["service"]


TASK = """\
schema_version = "1.4"
[environment]
workdir = "/workspace"
network_mode = "no-network"
skills_dir = "/opt/skills"
[[environment.mcp_servers]]
name = "own server"
transport = "stdio"
command = "python3"
args = ["/opt/server.py"]
"""
STDIO_SERVER = """\
import json, sys
TOOL = {"name": "mark", "description": "Marks.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "own", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "marked"}]},
    }
    if asked.get("method") == "tools/call":
        open("/workspace/marked", "w").write("yes")
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}), flush=True)
"""


def write_task(folder: Path, *, with_server: bool = True) -> None:
    """Writes a task folder with a skill of its own, and an MCP server."""
    files = {
        "task.toml": TASK if with_server else TASK.partition("[[")[0],
        "instruction.md": "Mark it.",
        "environment/Dockerfile": "FROM scratch\nCOPY server.py /opt/server.py\nCOPY skills /opt/skills\n",
        "environment/server.py": STDIO_SERVER,
        "environment/skills/marking/SKILL.md": "---\nname: marking\ndescription: How to mark SKILL-7.\n---\nMark.\n",
        "tests/test.sh": "#!/bin/sh\n[ -s /workspace/marked ] && echo 1 > /logs/verifier/reward.txt\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.long
@pytest.mark.parametrize("harness", ["claude-code", "codex", "pi", "gemini-cli", "opencode", "qwen-code"])
async def test_skills_of_a_task_are_in_the_request_to_the_model(
    harness: str, tmp_path: Path, need_installed: Callable[[str], None]
) -> None:
    need_installed(harness)
    write_task(tmp_path / "marking", with_server=False)
    (tmp_path / "script.json").write_bytes(msgspec.json.encode(["Done.", "Done.", "Done."]))
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    task, model = str(tmp_path / "marking"), f"scripted:{tmp_path / 'script.json'}"
    await start_run(RunConfig(tasks=(task,), agent=harness, model=model, run="r"), settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    requests = msgspec.json.encode([call.request for call in found.calls])
    assert b"How to mark SKILL-7." in requests, (found.finished, len(found.calls))


@pytest.mark.long
@pytest.mark.parametrize("harness", ["claude-code", "codex", "pi"])
async def test_harness_has_the_servers_and_skills_of_a_task(
    harness: str, tmp_path: Path, need_installed: Callable[[str], None]
) -> None:
    need_installed(harness)
    write_task(tmp_path / "marking")
    server = "own_server" if harness == "codex" else "own-server"  # Codex spells names in its own way
    call = {"tool_calls": [{"name": f"mcp__{server}__mark", "arguments": {}}]}
    (tmp_path / "script.json").write_bytes(msgspec.json.encode([call, "Done."]))
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    task, model = str(tmp_path / "marking"), f"scripted:{tmp_path / 'script.json'}"
    await start_run(RunConfig(tasks=(task,), agent=harness, model=model, run="r"), settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    assert found.outcome == "pass", (found.finished, found.steps)
    assert b"SKILL-7" in msgspec.json.encode([call.request for call in found.calls])
    (told,) = [one.data for one in found.evidence if one.kind == "harness"]
    assert (told["servers"], told["skills"]) == (["own-server"], True)
