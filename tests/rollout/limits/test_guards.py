"""Contracts while an attempt goes on, in a world, through the gateway, and in a real sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from assay.agents.interface import Attempt
from assay.agents.testing import FakeWorkspace
from assay.analysis.actions import actions_of
from assay.analysis.contracts import findings_of_contract, read_contract
from assay.analysis.subject import Subject
from assay.errors import UserError
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelRequest
from assay.records import Evidence, Trajectory
from assay.rollout import ReverifyConfig, RunConfig, Tally, reverify, start_run
from assay.rollout.limits.contract_guards import ActiveContracts, Ask, Question
from assay.settings import Settings
from assay.store import RunStore, restore_messages
from tests.rollout.attempt.test_sandboxed_programs import CLIENT, bash
from tests.rollout.counting import counting_task
from tests.rollout.programs import Program, run_program, write
from tests.store.chains import verify_chain

AGENTS = Path(__file__).parents[1] / "agents.py"
ONCE = """
contract = "once"
[[rules]]
name = "add-once"
kind = "governance"
require = 'count(call.name == "add") <= 1'
enforce = "ENFORCE"
"""
WRITES = """
contract = "writes"
[[rules]]
name = "no-b"
kind = "invariant"
require = 'not (call.name == "write" and call.arguments.path == "/b")'
enforce = "deny"
message = "leave /b alone"
"""


def guards(found: Trajectory) -> list[Evidence]:
    return [e for e in found.evidence if e.kind == "guard"]


async def solved(tmp_path: Path, enforce: str, ask: Ask | None = None) -> Trajectory:
    (tmp_path / "once.toml").write_text(ONCE.replace("ENFORCE", enforce))
    config = RunConfig(tasks=("-",), agent=f"{AGENTS}:Solver", run="r", contracts=(str(tmp_path / "once.toml"),))
    await start_run(config, Settings(tmp_path, tmp_path), Tally(), tasks=[counting_task()], ask=ask)
    with RunStore.open(tmp_path, "r") as store:
        (found,) = store.trajectories()
        assert verify_chain(store.events(found.chain), head=found.head) is None
    return found


async def test_a_refused_call_is_not_made_and_its_agent_is_told_why(tmp_path: Path) -> None:
    found = await solved(tmp_path, "deny")
    assert [(o.error, o.content[:7]) for s in found.steps for o in s.observations] == [(False, "5"), (True, "Refused")]
    assert "add-once" in found.steps[1].observations[0].content
    assert found.steps[0].state == found.steps[1].state
    assert found.outcome == "fail"
    (decision,) = guards(found)
    assert decision.data["decision"] == "denied"
    assert (decision.data["step"], decision.data["call"], decision.data["rule"]) == (1, 0, "add-once")


async def test_a_refused_call_is_not_made_when_the_attempt_is_judged_again(tmp_path: Path) -> None:
    await solved(tmp_path, "deny")
    report = await reverify("r", ReverifyConfig(again=1, allow_task_code=True), Settings(tmp_path, tmp_path))
    assert [one.mark for one in report.results] == ["agree"]


async def test_what_is_only_logged_is_made(tmp_path: Path) -> None:
    found = await solved(tmp_path, "log")
    assert found.outcome == "pass"
    assert [e.data["decision"] for e in guards(found)] == ["logged"]


@pytest.mark.parametrize("answer", [True, False, None])
async def test_whoever_is_asked_decides_and_without_anybody_it_is_refused(tmp_path: Path, answer: bool | None) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> bool:
        asked.append(question)
        return bool(answer)

    found = await solved(tmp_path, "ask", None if answer is None else ask)
    assert [(q.tool, q.rule) for q in asked] == ([] if answer is None else [("add", "add-once")])
    assert found.outcome == ("pass" if answer else "fail")
    assert guards(found)[0].data["asked"] == (answer is not None)


async def test_what_was_refused_counts_as_attempted_afterwards_and_what_held_is_in_the_record(tmp_path: Path) -> None:
    found = await solved(tmp_path, "deny")
    (held,) = (e for e in found.evidence if e.kind == "contract")
    contract = read_contract(ONCE.replace("ENFORCE", "deny"), "x")
    assert held.data["digest"] == contract.digest
    findings = findings_of_contract(contract, Subject(found, actions_of(found), lambda _: None))
    assert [(f.rule, f.reach, f.steps) for f in findings] == [("once.add-once", "attempted", (1,))]


THINKER = """
import asyncio
from assay.records import ToolCall


class Thinker:
    name = "thinker"
    needs_model = False

    async def run(self, attempt):
        for thought in ("add five", "I will CHEAT", "add five"):
            call = ToolCall("x", "add", '{"by":5}', {"by": 5})
            await attempt.act([call], reasoning=thought)
            await asyncio.sleep(0.3)
        attempt.finish("ok")
"""


@pytest.mark.parametrize(
    ("require", "refused"),
    [('not (reasoning matches "CHEAT")', [False, True, False]), ("seconds < 0.5", [False, False, True])],
)
async def test_a_deny_on_reasoning_and_on_time_refuses_the_call(
    tmp_path: Path, require: str, refused: list[bool]
) -> None:
    (tmp_path / "thinker.py").write_text(THINKER)
    rule = f"""contract = "live"
[[rules]]
name = "live"
kind = "invariant"
require = '{require}'
enforce = "deny"
"""
    (tmp_path / "live.toml").write_text(rule)
    config = RunConfig(tasks=("-",), agent=f"{tmp_path}/thinker.py", run="r", contracts=(str(tmp_path / "live.toml"),))
    await start_run(config, Settings(tmp_path, tmp_path), Tally(), tasks=[counting_task()])
    with RunStore.open(tmp_path, "r") as store:
        (found,) = store.trajectories()
    assert [o.error for s in found.steps for o in s.observations] == refused
    assert [e.data["decision"] for e in guards(found)] == ["denied"]


async def test_a_tasks_own_contract_holds(tmp_path: Path) -> None:
    import tomllib

    loaded = counting_task()
    metadata = {"assay": {"contracts": [tomllib.loads(ONCE.replace("ENFORCE", "deny"))]}}
    loaded = loaded._replace(task=replace(loaded.task, metadata=metadata))
    config = RunConfig(tasks=("-",), agent=f"{AGENTS}:Solver", run="r")
    await start_run(config, Settings(tmp_path, tmp_path), Tally(), tasks=[loaded])
    with RunStore.open(tmp_path, "r") as store:
        assert store.attempts()[0].outcome == "fail"


async def test_a_broken_contract_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    loaded = counting_task()
    metadata = {"assay": {"contracts": [{"contract": "x", "rules": [{"name": "n"}]}]}}
    loaded = loaded._replace(task=replace(loaded.task, metadata=metadata))
    config = RunConfig(tasks=("-",), agent=f"{AGENTS}:Solver", run="r")
    with pytest.raises(UserError, match=r"metadata\.assay\.contracts\[0\]: rules\[0\]"):
        await start_run(config, Settings(tmp_path, tmp_path), Tally(), tasks=[loaded])
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def obedient(request: ModelRequest) -> dict[str, Any] | str:
    """Wants /a, then /b; is told of the refusal, and writes /c instead."""
    text = str(request.messages)
    if "wrote /c" in text or request.messages[-1]["content"] == "wrote /c":
        return "done"
    if "leave /b alone" in text:
        return write("/c")
    return write("/b") if "wrote /a" in text else write("/a")


async def test_a_refused_call_of_a_reply_never_reaches_the_program(tmp_path: Path) -> None:
    desk, program = FakeWorkspace(), Program()
    held = ActiveContracts((read_contract(WRITES, "x"),))
    (found,) = await run_program(tmp_path, program, ScriptedBackend(obedient), workspace=desk, held=held)
    assert program.errors == []
    told = [(s.tool_calls[0].parsed["path"], s.observations[0].error) for s in found.steps if s.tool_calls]  # type: ignore[index]
    assert told == [("/a", False), ("/b", True), ("/c", False)]
    refused = found.steps[1]
    assert "leave /b alone" in refused.observations[0].content
    calls = {call.id: call for call in found.calls}
    assert calls[refused.call or ""].delivered is False
    (between,) = (e.data for e in found.evidence if e.kind == "guard_turns")
    assert [m["role"] for m in between["messages"]] == ["assistant", "tool"]
    after = calls[found.steps[-1].call or ""]
    assert [m["role"] for m in restore_messages(calls, after)] == ["user", "assistant", "tool", "assistant", "tool"]


async def test_a_model_that_insists_gets_its_call_taken_out_of_its_reply(tmp_path: Path) -> None:
    desk, program = FakeWorkspace(), Program()
    held = ActiveContracts((read_contract(WRITES, "x"),))
    (found,) = await run_program(tmp_path, program, ScriptedBackend(lambda _: write("/b")), workspace=desk, held=held)
    assert found.finished is not None
    assert "leave /b alone" in (found.finished.ended or "")
    assert [s.tool_calls == () for s in found.steps] == [False, False, False, True]
    with pytest.raises(FileNotFoundError):
        await desk.read("/b")


NO_REMOVAL = r"""
contract = "keep"
[[rules]]
name = "no-removal"
kind = "invariant"
require = 'not (act.command matches "\brm\b")'
enforce = "deny"
"""
REMOVER = """
class Remover:
    name = "remover"
    needs_model = False
    async def run(self, attempt):
        await attempt.shell("echo hi > a.txt")
        refused = await attempt.shell("rm a.txt")
        beside = await attempt.workspace.exec("rm -f a.txt")
        attempt.finish(f"{refused.exit_code} {beside.exit_code}")
"""


def write_task(folder: Path) -> Path:
    task = folder / "hello"
    for name, text in {
        "task.toml": 'schema_version = "1.4"\n[environment]\nworkdir = "/workspace"\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write a.txt.",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\n",
        "tests/test.sh": "#!/bin/sh\n[ -s /workspace/a.txt ] && echo 1 > /logs/verifier/reward.txt\n",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    return task


async def test_commands_in_a_real_sandbox_are_refused_as_steps_and_beside_them(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    (tmp_path / "agent.py").write_text(REMOVER)
    (tmp_path / "keep.toml").write_text(NO_REMOVAL)
    contracts = (str(tmp_path / "keep.toml"),)
    config = RunConfig(tasks=(str(task),), agent=f"{tmp_path}/agent.py:Remover", run="r", contracts=contracts)
    settings = Settings(Settings.from_environment().cache, tmp_path / "store")
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    assert (found.finished and found.finished.ended) == "126 126"
    assert found.outcome == "pass"
    assert [(e.data.get("step"), e.data.get("beside")) for e in guards(found)] == [(1, None), (None, True)]
    (summary,) = (e.data for e in found.evidence if e.kind == "guard_summary")
    assert (summary["checked"], summary["denied"]) == (3, 2)


class Streaming(Program):
    """Asks for its answers piece by piece."""

    async def converse(self, attempt: Attempt, client: aiohttp.ClientSession, url: str) -> None:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Write the files."}]}
        async with client.post(url, json=body) as response:
            self.streamed = (await response.read()).decode()
        attempt.finish("read")


async def test_nothing_of_a_refused_call_is_streamed(tmp_path: Path) -> None:
    program = Streaming()
    held = ActiveContracts((read_contract(WRITES, "x"),))
    backend = ScriptedBackend(
        lambda request: "as you say" if "leave /b alone" in str(request.messages) else write("/b")
    )
    (found,) = await run_program(tmp_path, program, backend, held=held)
    assert "/b" not in program.streamed
    assert "as you say" in program.streamed
    assert [s.observations[0].error for s in found.steps if s.tool_calls] == [True]


async def test_a_program_in_a_real_sandbox_never_gets_a_refused_call(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "keep.toml").write_text(NO_REMOVAL)
    replies = [bash("echo hi > a.txt"), bash("rm a.txt"), bash("echo there >> a.txt"), "done"]
    (tmp_path / "s.json").write_text(json.dumps(replies))
    options = {"command": '["python3", "/opt/client.py"]', "mounts": {f"{tmp_path}/client.py": "/opt/client.py"}}
    config = RunConfig(
        tasks=(str(task),),
        agent="command",
        agent_options=options,
        model=f"scripted:{tmp_path}/s.json",
        contracts=(str(tmp_path / "keep.toml"),),
        run="r",
    )
    settings = Settings(Settings.from_environment().cache, tmp_path / "store")
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    assert found.outcome == "pass"
    assert [[o.error for o in step.observations] for step in found.steps[:3]] == [[False], [True], [False]]
    assert [v.status for v in found.verdicts if v.kind == "safety"] == ["pass"]
