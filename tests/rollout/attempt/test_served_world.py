"""A world whose agent is a program in a real sandbox: it is served there, recorded call by call, and judged here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.agents.interface import Attempt, Needs
from assay.records import Check, EnvironmentSpec, Limits, Task, Trajectory, digest_record
from assay.rollout import ReverifyConfig, RunConfig, Tally, reverify, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore, audit
from assay.tasks import LoadedTask
from tests.environments.services.shop import FIRST, open_world
from tests.rollout.attempt.test_model_user import HONEST, SCRIPT, lending_task
from tests.rollout.counting import counting_task

SHOP = "tests.environments.services.shop:shop"
CANCEL = ("cancel_order", {"order_id": FIRST, "reason": "late"})
CHAT = """
import json, os, subprocess, urllib.request
def post(url, body, **more):
    headers = {"Content-Type": "application/json", **more}
    return json.loads(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read())
url, messages = os.environ["OPENAI_BASE_URL"] + "/chat/completions", [{"role": "user", "content": "go"}]
while True:
    asked = {"model": "m", "messages": messages}
    said = post(url, asked, Authorization="Bearer " + os.environ["OPENAI_API_KEY"])["choices"][0]["message"]
    messages.append(said)
    for call in said.get("tool_calls") or []:
        done = subprocess.run(json.loads(call["function"]["arguments"])["command"], shell=True, capture_output=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout.decode()})
    if not said.get("tool_calls"):
        break
"""


class Caller:
    """Runs commands in its sandbox, and nothing else."""

    name = "caller"
    needs_model = False
    mounts = ()
    needs = Needs(memory_mib=64)

    def __init__(self, commands: str) -> None:
        self.commands: list[str] = json.loads(commands)

    async def run(self, attempt: Attempt) -> None:
        assert attempt.workspace is not None
        for command in self.commands:
            result = await attempt.workspace.exec(command)
            attempt.say(f"{result.exit_code} {result.stdout}{result.stderr}")
        attempt.finish("done")


class ShellCaller(Caller):
    """Runs each command as a step of its own."""

    name = "shell-caller"

    async def run(self, attempt: Attempt) -> None:
        for command in self.commands:
            await attempt.shell(command)
        attempt.finish("done")


def shop_task(**fields: Any) -> LoadedTask:
    """A task of which `CANCEL` is the whole solution."""
    world = open_world()
    world.act(*CANCEL)
    expected = {"changes": world.facts()["changes"]}
    spec = EnvironmentSpec("assay.environments.services.world:ServiceWorld", {"services": [SHOP]}, seed=1)
    check = Check("cancelled", "facts", {"expected": expected})
    return LoadedTask(Task("shop", "Cancel it.", spec, (check,), digest=digest_record(["shop"]), **fields), None)


def settings_of(tmp_path: Path) -> Settings:
    return Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")


async def run(tmp_path: Path, task: LoadedTask, commands: list[str], **fields: Any) -> Trajectory:
    known = {"agent": f"{__file__}:Caller", "agent_options": {"commands": json.dumps(commands)}}
    config = RunConfig(tasks=("-",), run="r", **{**known, **fields})
    settings = settings_of(tmp_path)
    await start_run(config, settings, Tally(), tasks=(task,))
    assert audit(settings.store, "r") == ()
    with RunStore.open(settings.store, "r") as store:
        (found,) = store.trajectories()
    return found


def calls_of(found: Trajectory) -> list[tuple[str, Any, str | None]]:
    return [(call.name, call.parsed, step.state) for step in found.steps for call in step.tool_calls]


def digest_after(*calls: tuple[str, dict[str, Any]]) -> str:
    world = open_world()
    for name, arguments in calls:
        world.act(name, arguments)
    return world.database.digest()


def ending(found: Trajectory) -> tuple[str | None, str | None, str | None]:
    assert found.finished is not None
    return found.finished.ended, found.finished.stopped, found.finished.broke


async def test_calls_of_a_program_are_steps_and_the_world_is_judged(tmp_path: Path) -> None:
    cancel = f"service cancel_order --order-id {FIRST} --reason late"
    found = await run(tmp_path, shop_task(), ["service list_orders --limit 1", cancel])
    look = ("list_orders", {"limit": 1})
    assert calls_of(found) == [(*look, digest_after(look)), (*CANCEL, digest_after(look, CANCEL))]
    assert (found.outcome, ending(found)) == ("pass", ("done", None, None))
    (verdict,) = [verdict for verdict in found.verdicts if verdict.kind == "outcome"]
    assert verdict.separation == "no-agent-code"
    assert found.isolation is not None
    assert found.isolation.name != "not needed"


async def test_files_and_processes_of_the_program_are_no_part_of_the_state(tmp_path: Path) -> None:
    commands = ["echo x > file; (sleep 100 &)", f"service cancel_order --order-id {FIRST} --reason late"]
    found = await run(tmp_path, shop_task(), commands)
    assert found.outcome == "pass"
    assert calls_of(found)[0][2] == digest_after(CANCEL)


async def test_any_world_is_served(tmp_path: Path) -> None:
    found = await run(tmp_path, counting_task(), ["service help add", "service add --by 10"])
    assert found.outcome == "pass"
    assert "service add --by INTEGER" in (found.steps[0].message or "")


@pytest.mark.long
async def test_limit_of_turns_ends_a_program_that_calls_on(tmp_path: Path) -> None:
    task = counting_task(limits=Limits(turns=3))
    found = await run(tmp_path, task, ["while service add --by 1; do :; done; sleep 60"])
    assert (found.outcome, ending(found)[1]) == ("fail", "turns")
    assert len(calls_of(found)) == 3


async def test_world_that_breaks_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    found = await run(tmp_path, counting_task(), ["service add --json '{}'; sleep 60"], retries=0)
    assert (found.outcome, ending(found)[2]) == (None, "environment")


def chat(tmp_path: Path, *replies: Any) -> dict[str, Any]:
    """Fields of a run in which a program asks a model that gives these replies, and runs their commands."""
    (tmp_path / "client.py").write_text(CHAT)
    (tmp_path / "s.json").write_text(json.dumps(replies))
    options = {"command": '["python3", "/opt/client.py"]', "mounts": {f"{tmp_path}/client.py": "/opt/client.py"}}
    return {"agent": "command", "agent_options": options, "model": f"scripted:{tmp_path}/s.json"}


async def test_model_calls_are_turns_and_calls_of_the_world_are_steps_between(tmp_path: Path) -> None:
    command = f"service cancel_order --order-id {FIRST} --reason late"
    fields = chat(tmp_path, {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, "done")
    found = await run(tmp_path, shop_task(limits=Limits(turns=2)), [], **fields)
    assert (found.outcome, ending(found)[1]) == ("pass", None)
    assert [name for name, _, _ in calls_of(found)] == ["cancel_order", "bash"]
    assert calls_of(found)[0][2] == calls_of(found)[1][2] is not None


async def test_sandbox_of_a_world_has_what_its_task_says(tmp_path: Path) -> None:
    task = counting_task()
    spec = EnvironmentSpec(task.task.environment.kind, {"start": 9, "sandbox": {"env": {"WORD": "yes"}}})
    from msgspec.structs import replace

    found = await run(
        tmp_path, LoadedTask(replace(task.task, environment=spec), None), ["echo $WORD; service add --by 1"]
    )
    assert found.outcome == "pass"
    assert "yes" in (found.steps[-1].message or "")


@pytest.mark.parametrize("tool", ["bash", "add"])
async def test_a_harness_is_judged_again_by_what_reached_the_world(tmp_path: Path, tool: str) -> None:
    """The calls of its model are those of its own tools, even where a tool has the name of an action."""
    arguments = {"command": "service add --by 10", "by": 10}
    fields = chat(tmp_path, {"tool_calls": [{"name": tool, "arguments": arguments}]}, "done")
    found = await run(tmp_path, counting_task(), [], **fields)
    assert [name for name, _, _ in calls_of(found)] == ["add", tool]
    report = await reverify("r", ReverifyConfig(again=1, allow_task_code=True), settings_of(tmp_path))
    assert [one.mark for one in report.results] == ["agree"]
    replayed = await replay("r", ReplayConfig(all=True, allow_task_code=True), settings_of(tmp_path), Tally())
    assert "run it again on the recorded replies" in str(replayed.results[0].problem)


CONDUCT = """
contract = "shop"
[[rules]]
name = "look-first"
kind = "precondition"
when = 'call.name == "cancel_order"'
require = 'earlier(call.name == "list_orders" and result.ok)'
[[rules]]
name = "one-order"
kind = "governance"
require = 'count(call.name == "cancel_order" and result.ok) <= 1'
"""


@pytest.mark.parametrize(
    ("tool", "look", "outcome"),
    [("list_orders", "", "fail"), ("cancel_order", "service list_orders --limit 1;", "pass")],
    ids=["looks-in-words-only", "acts-once"],
)
async def test_rules_judge_what_reached_the_world_alone(tool: str, look: str, outcome: str, tmp_path: Path) -> None:
    """A program reports to its model what it likes about the calls of tools of its own."""
    command = f"{look} service cancel_order --order-id {FIRST} --reason late; echo '[]'"
    fields = chat(tmp_path, {"tool_calls": [{"name": tool, "arguments": {"command": "echo '[]'"}}]},
                  {"tool_calls": [{"name": tool, "arguments": {"command": command}}]}, "done")  # fmt: skip
    task = shop_task()
    rules = Check("rules", "policy", {"contracts": [CONDUCT]})
    checks = (*task.task.checks, rules)
    found = await run(tmp_path, LoadedTask(msgspec.structs.replace(task.task, checks=checks), None), [], **fields)
    assert [name for name, _, _ in calls_of(found)].count(tool) == 2 + (tool in command)
    assert found.outcome == outcome


@pytest.mark.parametrize(("agent", "replayable"), [("Caller", True), ("ShellCaller", False)])
async def test_programs_without_a_model_are_judged_again(tmp_path: Path, agent: str, replayable: bool) -> None:
    commands = ["service add --by 4", "service add --by 6; exit 3"]
    found = await run(tmp_path, counting_task(), commands, agent=f"{__file__}:{agent}")
    assert found.outcome == "pass"
    report = await reverify("r", ReverifyConfig(again=1, allow_task_code=True), settings_of(tmp_path))
    assert [one.mark for one in report.results] == ["agree"]
    replayed = await replay("r", ReplayConfig(all=True, allow_task_code=True), settings_of(tmp_path), Tally())
    assert replayed.counts == {"agree": int(replayable), "differ": 0, "cannot": int(not replayable)}
    assert replayable or "run it again" in str(replayed.results[0].problem)


async def meet(tmp_path: Path, question: str, reply: str) -> Trajectory:
    """An attempt whose program asks a person whose words a model chooses."""
    model = tmp_path / "user.json"
    model.write_text(json.dumps({"replies": [reply], "after": "last"}), encoding="utf-8")
    command = f"service send_message --text {question!r}"
    return await run(tmp_path, lending_task(SCRIPT), [command], user_model=f"scripted:{model}", retries=0)


async def test_a_program_talks_with_a_person_whose_words_a_model_chooses(tmp_path: Path) -> None:
    found = await meet(tmp_path, "Your email?", str(HONEST["reply"]))
    assert [step.actor for step in found.steps if step.tool_calls or step.actor == "user"] == ["agent", "user"]
    assert str(HONEST["reply"]) in (found.steps[-1].message or "")
    assert (found.outcome, len(found.user_calls), ending(found)) == ("pass", 1, ("done", None, None))
    report = await reverify("r", ReverifyConfig(again=1, allow_task_code=True), settings_of(tmp_path))
    assert [one.mark for one in report.results] == ["agree"]


async def test_a_person_who_leaves_the_script_is_no_failure_of_a_program(tmp_path: Path) -> None:
    found = await meet(tmp_path, "Your PIN?", "It is 4711.")
    assert (found.outcome, ending(found)[2]) == (None, "user")
