"""A program in a real sandbox asks the run's model; replayed, it reaches the same state in a fresh one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore, audit

SECRET = "upstream-secret-0123456789"
CLIENT = """
import json, os, subprocess, urllib.request
url, messages = os.environ["OPENAI_BASE_URL"] + "/chat/completions", [{"role": "user", "content": f"go {os.getpid()}"}]
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
while True:
    asked = json.dumps({"model": "m", "messages": messages}).encode()
    answer = urllib.request.urlopen(urllib.request.Request(url, asked, headers)).read()
    said = json.loads(answer)["choices"][0]["message"]
    messages.append(said)
    for call in said.get("tool_calls") or []:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})
    if not said.get("tool_calls"):
        break
"""
TASK = 'schema_version = "1.4"\n[environment]\nworkdir = "/workspace"\nnetwork_mode = "no-network"\n'


def bash(command: str) -> dict[str, object]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    task = tmp_path / "hello"
    for name, text in {
        "task.toml": TASK,
        "instruction.md": "Write a.txt.",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\n",
        "tests/test.sh": "#!/bin/sh\n[ -s /workspace/a.txt ] && echo 1 > /logs/verifier/reward.txt\n",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    (tmp_path / "client.py").write_text(CLIENT)
    look = bash("env; cat /proc/*/environ 2>/dev/null; ls")
    (tmp_path / "s.json").write_text(json.dumps([bash("echo hi > a.txt"), bash("echo there >> a.txt"), look, "done"]))
    return tmp_path


async def run(folder: Path, model: str, name: str) -> Trajectory:
    settings = Settings(Settings.from_environment().cache, folder / "store", openai_api_key=SECRET)
    options = {"command": '["python3", "/opt/client.py"]', "mounts": {f"{folder}/client.py": "/opt/client.py"}}
    config = RunConfig(tasks=(str(folder / "hello"),), agent="command", agent_options=options, model=model, run=name)
    await start_run(config, settings, Tally())
    assert audit(settings.store, name) == ()
    with RunStore.open(settings.store, name) as store:
        (found,) = store.trajectories()
    return found


@pytest.mark.long
async def test_a_program_in_a_sandbox_is_recorded_and_replayed(folder: Path) -> None:
    first = await run(folder, f"scripted:{folder}/s.json", "one")
    second = await run(folder, "replay:hello@0", "two")
    assert (first.outcome, second.outcome) == ("pass", "pass")
    assert (len(first.steps), second.model) == (4, "replay:one:hello@0")
    assert [s.state for s in first.steps] == [s.state for s in second.steps]
    assert first.calls[1].state == first.steps[0].state != first.steps[1].state
    seen = first.steps[2].observations[0].content
    assert "ASSAY_MODEL_KEY=[redacted:session_key]" in seen
    assert "OPENAI_API_KEY=[redacted:session_key]" in seen
    assert "redacted:OPENAI" not in seen
    assert SECRET not in seen
