from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import plugins
from assay.agents.interface import Agent, Prior
from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.agents.random_shell import RandomShellAgent
from assay.agents.replay import ContinueAgent, ReplayAgent
from assay.agents.testing import FakeAttempt, FakeTools, FakeWorkspace, fake_task
from assay.environments.interface import ExecResult
from assay.errors import TaskError, UserError
from assay.records import Evidence, Isolation, Observation, Oracle, Step, ToolCall

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", ["oracle", "null", "replay", "random-shell", "loop"])
def test_agents_are_found_by_name(name: str) -> None:
    agent = plugins.load("agents", name)()
    assert isinstance(agent, Agent)
    assert (agent.name, agent.needs_model) == (name, name == "loop")


async def test_null_leaves_everything_alone() -> None:
    attempt = FakeAttempt(workspace=FakeWorkspace())
    await NullAgent().run(attempt)
    assert (attempt.ended, attempt.steps) == ("did nothing", [])


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "solve.sh").write_text("echo solved")
    (tmp_path / "lib" / "part.txt").write_text("part")
    return tmp_path


class Seen(FakeWorkspace):
    """Keeps the variables of the last command."""

    env: Any = None

    async def exec(self, command: Any, *, env: Any = None, **more: Any) -> ExecResult:
        self.env = env
        return await super().exec(command, **more)


async def test_oracle_runs_the_solution_with_its_variables(solution: Path) -> None:
    workspace = Seen()
    task = fake_task(oracle=Oracle(("bash", "/solution/solve.sh"), "solution", {"A": "1 2", "B": "x"}))
    attempt = FakeAttempt(task=task, workspace=workspace, solution=solution)
    await OracleAgent().run(attempt)
    assert workspace.files == {"/solution/solve.sh": b"echo solved", "/solution/lib/part.txt": b"part"}
    assert (workspace.commands, workspace.env) == ([["bash", "/solution/solve.sh"]], {"A": "1 2", "B": "x"})
    assert attempt.ended == "ran the reference solution"


@pytest.mark.parametrize(
    ("command", "run"),
    [
        (("/bin/sh", "solve.sh"), ["/bin/sh", "/solution/solve.sh"]),
        (("solve.sh",), ["/solution/solve.sh"]),
        (
            ("./solve.sh", "lib/part.txt", "../solve.sh", "-v"),
            ["/solution/solve.sh", "/solution/lib/part.txt", "../solve.sh", "-v"],
        ),
        (("solve.sh", "lib"), ["solve.sh", "lib"]),
    ],
)
async def test_oracle_finds_the_files_of_the_solution(solution: Path, command: tuple[str, ...], run: list[str]) -> None:
    workspace = FakeWorkspace()
    task = fake_task(oracle=Oracle(command, "solution"))
    await OracleAgent().run(FakeAttempt(task=task, workspace=workspace, solution=solution))
    assert workspace.commands == [run]


async def test_oracle_says_that_the_solution_failed(solution: Path) -> None:
    workspace = FakeWorkspace(lambda command, files: ExecResult(3, "", "", 0.0))
    attempt = FakeAttempt(task=fake_task(oracle=Oracle(("false",))), workspace=workspace, solution=solution)
    await OracleAgent().run(attempt)
    assert attempt.ended == "the reference solution ended with exit code 3"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"workspace": FakeWorkspace()}, "add solution/solve.sh"),
        ({"task": fake_task(oracle=Oracle(("x",)))}, "has no shell"),
        ({"task": fake_task(oracle=Oracle(("x",), "solution")), "workspace": FakeWorkspace()}, "is not there"),
    ],
)
async def test_oracle_explains_what_is_missing(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(TaskError, match=says):
        await OracleAgent().run(FakeAttempt(**fields))


def recorded(index: int, x: int, content: str) -> Step:
    call = ToolCall(f"c{index}", "double", f'{{"x":{x}}}', {"x": x})
    return Step(index, "agent", message=f"step {index}", tool_calls=(call,), observations=(Observation(content),))


async def test_replay_does_the_recorded_calls_in_order() -> None:
    tools = FakeTools({"double": lambda a: str(2 * a["x"])})
    prior = (recorded(0, 1, "2"), Step(1, "environment"), Step(2, "agent", message="hm"), recorded(3, 5, "11"))
    attempt = FakeAttempt(tools=tools, prior=Prior(prior))
    await ReplayAgent().run(attempt)
    assert tools.calls == [("double", {"x": 1}), ("double", {"x": 5})]
    assert [step.message for step in attempt.steps] == ["step 0", "hm", "step 3"]
    assert attempt.evidence[-1].data == {"steps": 3, "missing": []}
    assert attempt.ended == "did 3 recorded steps again"


@pytest.mark.parametrize("until", [0, 1, 3])
async def test_another_agent_goes_on_after_so_many_steps(until: int) -> None:
    tools = FakeTools({"double": lambda a: str(2 * a["x"])})
    attempt = FakeAttempt(tools=tools, prior=Prior(tuple(recorded(n, n, "") for n in range(3)), until=until))
    agent = ContinueAgent(NullAgent())
    await agent.run(attempt)
    assert (len(tools.calls), attempt.ended) == (until, "did nothing")
    assert (agent.name, agent.takes_solution) == ("replay+null", False)


async def test_what_was_done_beside_steps_is_done_again_or_named() -> None:
    write = {"path": "/a", "mode": 0o600, "beside": True}
    acts = (
        Evidence("e1", "audit", "write", {**write, "digest": "blake3:1"}),
        Evidence("e2", "audit", "write", write),
        Evidence("e3", "audit", "write", {**write, "path": "/b", "fork": "1", "digest": "blake3:1"}),
        Evidence("e4", "audit", "execution", {"argv": ["make"], "cwd": "/w", "beside": True, "env": ["KEY"]}),
        recorded(0, 1, ""),
    )
    attempt = FakeAttempt(workspace=FakeWorkspace(), prior=Prior(acts, blob=lambda _: b"kept"))
    await ReplayAgent().run(attempt)
    workspace = attempt.workspace
    assert isinstance(workspace, FakeWorkspace)
    assert (workspace.files, workspace.commands) == ({"/a": b"kept"}, [["make"]])
    missing = attempt.evidence[-1].data["missing"]
    assert ["not in the record" in missing[0], missing[1]] == [True, "the value of the variable KEY"]


async def test_replay_says_what_was_tried_in_a_fork_and_does_not_do_it() -> None:
    workspace = FakeWorkspace()
    before = FakeAttempt(workspace=workspace)
    await before.shell("make", message="try", fork=await workspace.fork())
    assert workspace.commands == []
    again = FakeAttempt(workspace=FakeWorkspace(), prior=Prior(tuple(before.steps)))
    await ReplayAgent().run(again)
    assert (again.workspace.commands, [step.message for step in again.steps]) == ([], ["try"])  # type: ignore[union-attr]


async def test_replay_does_not_execute_what_was_malformed() -> None:
    call = ToolCall("c", "double", "{bad", None, "the arguments are no JSON")
    tools = FakeTools({"double": lambda a: "x"})
    attempt = FakeAttempt(tools=tools, prior=Prior((Step(0, "agent", tool_calls=(call,)),)))
    await ReplayAgent().run(attempt)
    assert tools.calls == []
    assert attempt.steps[0].observations[0].error


@pytest.mark.parametrize("command", ["make && ls", ["make", "-k", "all"]])
async def test_replay_types_the_commands_that_were_typed(command: Any) -> None:
    before = FakeAttempt(workspace=FakeWorkspace(lambda command, files: ExecResult(2, "out", "err", 0.0)))
    await before.shell(command, message="build")
    again = FakeAttempt(workspace=before.workspace, prior=Prior(tuple(before.steps)))
    await ReplayAgent().run(again)
    assert again.steps == before.steps
    assert again.ended == "did 1 recorded steps again"


async def test_replay_of_nothing_is_explained() -> None:
    with pytest.raises(UserError, match="nothing to replay"):
        await ReplayAgent().run(FakeAttempt())


async def commands(seed: int, **options: Any) -> list[Any]:
    workspace = FakeWorkspace()
    await RandomShellAgent(**options).run(FakeAttempt(workspace=workspace, seed=seed))
    return workspace.commands


async def test_random_shell_is_decided_by_the_seed() -> None:
    assert await commands(1, steps=30) == await commands(1, steps="30")
    assert await commands(1, steps=30) != await commands(2, steps=30)
    assert len(await commands(1)) == 10


async def test_every_random_command_is_written_out() -> None:
    for command in await commands(3, steps=400):
        assert "{" not in command.replace("{bad", "")
        assert command.count("'") % 2 == 0


async def test_random_shell_is_dull_where_nothing_isolates() -> None:
    workspace = FakeWorkspace()
    workspace.isolation = Isolation("none")
    attempt = FakeAttempt(workspace=workspace)
    await RandomShellAgent(steps=200, odd=1.0).run(attempt)
    assert not [command for command in workspace.commands if "kill" in command or "/proc" in command]
    assert attempt.ended == "typed 200 random commands, dull ones: nothing isolates"


def test_random_shell_explains_wrong_options() -> None:
    with pytest.raises(TypeError, match="known: steps, timeout_s, odd"):
        RandomShellAgent(step=3)
    with pytest.raises(UserError, match=r"odd: expected a number <= 1\.0, got the number"):
        RandomShellAgent(odd=2)
