"""`assay.run` and `assay.arun`: forms of agents and tasks, notebooks, scripts, and an error for each misuse."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.agents.expert import ExpertAgent
from assay.environments.worlds.families import GridTasks
from assay.errors import (
    AgentDefinitionError,
    CheckDefinitionError,
    MissingModelError,
    OptionError,
    PluginLoadError,
    TaskSourceError,
)
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelRequest
from assay.records import ToolCall
from assay.rollout import Tally, resume_run
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.agents import Solver, add
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.newest
AGENTS = Path(__file__).parents[1] / "rollout" / "agents.py"
ONE_AGENT = Path(__file__).with_name("one_agent.py")
Run = Callable[..., assay.RunResult]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs on a task of the counting world, in a store of its own."""

    def call(tasks: Any = None, **given: Any) -> assay.RunResult:
        return assay.run([counting_task()] if tasks is None else tasks, **{"store": tmp_path / "store", **given})

    return call


async def solve(attempt: Any) -> str:
    """Adds ten."""
    await attempt.act([add(10)])
    return "added ten"


def solve_plainly(attempt: Any) -> None:
    """Adds ten, without `await`."""
    attempt.say("ten is missing")
    (seen,) = attempt.act([add(10)])
    attempt.finish(f"it shows {seen.content}")


def yields(attempt: Any) -> Any:
    yield attempt


class NamedBadly(Solver):
    """Fails where its name is read."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(1 / 0)


FORMS: dict[str, Any] = {
    "class": Solver,
    "instance": Solver(),
    "async function": solve,
    "plain function": solve_plainly,
    "lambda": lambda attempt: solve_plainly(attempt),
    "decorated": assay.agent(solve),
    "spec": f"{AGENTS}:Solver",
    "path of a file": ONE_AGENT,
}


@pytest.mark.parametrize("agent", FORMS.values(), ids=FORMS)
def test_every_form_of_an_agent_runs(run: Run, agent: Any) -> None:
    (attempt,) = run(agent=agent).attempts
    assert (attempt.outcome, attempt.broke) == ("pass", None)


def test_returned_text_and_finish_are_recorded(run: Run) -> None:
    first, second = run(agent=[solve, solve_plainly]).attempts
    assert (first.ended, first.agent) == ("added ten", "solve")
    assert (second.ended, second.steps) == ("it shows 10", 2)


def test_agent_options_go_to_a_class(run: Run) -> None:
    class Adding:
        name, needs_model = "adding", False

        def __init__(self, by: int = 1) -> None:
            self.by = by

        async def run(self, attempt: Any) -> None:
            await attempt.act([add(self.by)])

    assert [a.outcome for a in run(agent=Adding, agent_options={"by": 10})] == ["pass"]
    with pytest.raises(assay.UserError, match="does not take these options"):
        run(agent=Adding, agent_options={"bye": 10})


def test_crash_of_a_function_is_its_own(run: Run) -> None:
    def crash(attempt: Any) -> None:
        sys.exit(3)

    (attempt,) = run(agent=crash).attempts
    assert attempt.broke == "agent"
    assert "called sys.exit(3) (tests/api/test_running.py, line " in str(attempt.error)


async def cancels_itself(attempt: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


async def raises_without_text(attempt: Any) -> None:
    raise Mute


async def raises_half_a_character(attempt: Any) -> None:
    raise ValueError("\ud800")


FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "cancels itself": (cancels_itself, "raised CancelledError, though nothing cancelled it"),
    "an exception without a text": (raises_without_text, r"Mute: \(no message: its __str__ raised KeyError\)"),
    "an exception with half a character": (raises_half_a_character, r"ValueError: \\ud800 \(tests/api/test_running"),
    "acts by a text": (lambda attempt: attempt.act("look"), r"TypeError: act\(\) takes a list of ToolCall"),
    "acts by numbers": (lambda attempt: attempt.act([5]), "item 0 of it is of type int"),
    "a call of numbers": (lambda attempt: attempt.act([ToolCall(1, 2, "{}", {})]), "call 0 have wrong types"),  # type: ignore[arg-type]
    "an argument that is NaN": (
        lambda attempt: attempt.act([ToolCall("t", "add", "{}", {"by": float("nan")})]),
        "ValueError: the arguments of tool call 't'.by is nan",
    ),
    "says a number": (lambda attempt: attempt.say(5), r"the message of say\(\) is of type int"),
    "finishes with a number": (lambda attempt: attempt.finish(5), r"the message of finish\(\) is of type int"),
    "notes a text": (lambda attempt: attempt.note("x"), r"note\(\) takes an Evidence"),
}


@pytest.mark.parametrize(("agent", "error"), FAULTS.values(), ids=FAULTS)
def test_fault_of_an_agent_ends_its_attempt_alone(run: Run, agent: Callable[[Any], Any], error: str) -> None:
    broken, solved = run(agent=[agent, solve]).attempts
    assert (broken.broke, broken.finished is not None, solved.outcome) == ("agent", True, "pass")
    assert re.search(error, str(broken.error))


def test_half_characters_of_an_agent_are_recorded_escaped(run: Run) -> None:
    def mutters(attempt: Any) -> str:
        attempt.act([ToolCall("t", "\ud800", "{}", {"by": 10, "\udcff": "\ud801"})], message="\ud802")
        return "\ud803"

    (attempt,) = run(agent=mutters).attempts
    (step,) = attempt.trajectory.steps
    assert (step.message, step.tool_calls[0].name, attempt.ended) == (r"\ud802", r"\ud800", r"\ud803")
    assert step.tool_calls[0].parsed == {"by": 10, r"\udcff": r"\ud801"}


def test_half_characters_in_a_call_do_not_make_a_failure_the_worlds(run: Run) -> None:
    def mutters(attempt: Any) -> None:
        attempt.act([ToolCall("t", attempt.tools.specs()[0].name, "{}", {"\ud800": 1})])

    (attempt,) = run(tasks=["family:split-constraints,n=1"], agent=mutters).attempts
    assert (attempt.broke, attempt.outcome) == (None, "fail")


def test_coroutine_of_a_plain_function_is_named_in_the_error(run: Run) -> None:
    (attempt,) = run(agent=lambda attempt: solve(attempt)).attempts
    assert "returned a coroutine that nothing awaits" in str(attempt.error)


def test_limits_stop_a_plain_function(run: Run) -> None:
    def endless(attempt: Any) -> None:
        while True:
            attempt.act([add(0)])

    (attempt,) = run(agent=endless, max_turns=3).attempts
    assert (attempt.stopped, attempt.steps, attempt.outcome) == ("turns", 3, "fail")


def test_call_after_the_end_of_an_attempt_is_refused(run: Run) -> None:
    refused = threading.Event()

    def late(attempt: Any) -> None:
        time.sleep(0.5)
        try:
            attempt.act([add(10)])
        except RuntimeError:
            refused.set()

    (attempt,) = run(agent=late, max_wall_s=0.1).attempts
    assert (attempt.stopped, attempt.outcome, attempt.steps) == ("wall_s", "fail", 0)
    assert refused.wait(10)


def test_function_asks_the_model_of_the_run(run: Run) -> None:
    async def ask(attempt: Any) -> str:
        _, reply = await attempt.ask(ModelRequest([{"role": "user", "content": "how much?"}]))
        await attempt.act([add(int(reply.message["content"]))])
        return str(reply.message["content"])

    (attempt,) = run(agent=ask, model=ScriptedBackend(["10"])).attempts
    assert (attempt.outcome, attempt.ended, attempt.model) == ("pass", "10", "scripted")


def test_plain_function_names_the_model_call_of_its_steps(run: Run) -> None:
    def ask(attempt: Any) -> None:
        call, reply = attempt.ask(ModelRequest([{"role": "user", "content": "how much?"}]))
        attempt.say("thinking", reasoning="simple", call=call)
        attempt.act([add(int(reply.message["content"]))], call=call)

    (attempt,) = run(agent=ask, model=ScriptedBackend(["10"])).attempts
    (call,) = attempt.trajectory.calls
    assert [step.call for step in attempt.trajectory.steps] == [call.id, call.id]


def test_plain_function_opens_the_model_to_programs_of_a_sandbox(tmp_path: Path) -> None:
    assay.init_task(tmp_path / "sum")

    def serve(attempt: Any) -> str:
        return str(attempt.endpoint().model)

    result = assay.run(tmp_path / "sum", agent=serve, model=ScriptedBackend(["10"]), store=tmp_path / "store")
    assert result.attempts[0].ended == "scripted"


def test_grid_has_a_run_for_each_agent_and_model(run: Run) -> None:
    def asks(attempt: Any) -> None:
        attempt.ask(ModelRequest([{"role": "user", "content": "?"}]))

    models = [ScriptedBackend(["10"] * 9, name=name) for name in ("first", "second")]
    result = run(agent=[assay.agent(asks, needs_model=True), Solver], model=models, run="g")
    assert result.runs == ("g-0-asks-first", "g-1-asks-second", "g-2-solver")
    assert [(a.agent, a.model) for a in result] == [("asks", "first"), ("asks", "second"), ("solver", None)]
    with RunStore.open(result.store, result.runs[2]) as store:
        assert store.manifest()["grid"]["name"] == "g"


def adds(by: int) -> Any:
    def solver(attempt: Any) -> None:
        attempt.act([add(by)])

    return solver


def test_agents_without_a_name_are_told_apart_in_a_grid(run: Run, tmp_path: Path) -> None:
    agents = [adds(10), adds(9), assay.agent(adds(8), name="solver"), lambda _: "one", lambda _: "two"]
    result = run(agent=agents, run="g")
    *solvers, one, two = [attempt.agent for attempt in result]
    assert solvers == ["solver-1", "solver-2", "solver"]
    assert one != two
    assert one.startswith("lambda-")
    assert result.runs[0] == "g-0-solver-1"
    again = run(agent=agents, run="g", resume=True)
    assert [attempt.agent for attempt in again] == [*solvers, one, two]


def test_agents_of_two_files_are_named_after_their_files(run: Run, tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / f"{name}.py").write_text("import assay\n\n@assay.agent\ndef solver(attempt):\n    pass\n")
    agents = [str(tmp_path / "left.py"), str(tmp_path / "right.py")]
    assert [attempt.agent for attempt in run(agent=agents)] == ["left.solver", "right.solver"]


async def test_resumed_run_keeps_the_name_that_its_agent_had(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("import assay\n\n@assay.agent\ndef solver(attempt):\n    pass\n")
    await assay.arun("family:grid,n=1", agent=f"{tmp_path}/old.py", run="new", store=tmp_path)
    with RunStore.open(tmp_path, "new") as store:
        manifest = store.manifest()
        assert [row.agent for row in store.attempts()] == ["solver"]
    RunStore.create(tmp_path, "begun", {**manifest, "agent": "agent"}).close()
    await resume_run("begun", Settings(tmp_path, tmp_path), Tally())
    with RunStore.open(tmp_path, "begun") as store:
        assert [row.agent for row in store.attempts()] == ["agent"]


def test_run_is_resumed_with_the_same_objects(run: Run) -> None:
    tasks = [counting_task("a"), counting_task("b")]
    first = run(tasks, agent=solve, run="r")
    again = run(tasks, agent=solve, run="r", resume=True)
    assert [a.chain for a in again] == [a.chain for a in first]
    with pytest.raises(assay.UserError, match="the checks of the run have changed"):
        run(tasks, agent=solve, run="r", resume=True, checks=lambda state: True)


def test_a_run_is_resumed_with_the_same_arguments_only(run: Run) -> None:
    tasks = [counting_task("a"), counting_task("b")]
    run(tasks[:1], agent="null", run="r")
    differs = "agent is 'oracle' and was 'null'; attempts is 3 and was 1; the tasks are 'a', 'b' and were 'a'"
    with pytest.raises(assay.UserError, match=rf"run 'r' was started with other arguments: {differs}"):
        run(tasks, agent="oracle", attempts=3, run="r", resume=True)
    with pytest.raises(assay.UserError, match=r"model is 'scripted:m\.json' and was not set"):
        run(tasks[:1], agent="null", model="scripted:m.json", run="r", resume=True)
    with pytest.raises(assay.UserError, match=r"run 'r' exists in .* \(in Python: resume=True\)"):
        run(tasks[:1], agent="null", run="r")
    assert len(run(tasks[:1], agent="null", run="r", resume=True, budget_calls=9)) == 1


def test_a_store_that_is_a_file_is_a_misuse(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(assay.UserError, match="file is a file, not a store"):
        run([counting_task()], agent="null", store=tmp_path / "file")


def test_a_run_that_does_not_exist_is_not_resumed(run: Run) -> None:
    run([counting_task("a")], agent=solve, run="first")
    with pytest.raises(assay.UserError, match=r"nothing to resume: no run is called 'frist'.*nearest are first"):
        run([counting_task("a")], agent=solve, run="frist", resume=True)


async def test_run_with_objects_is_not_resumed_without_them(tmp_path: Path) -> None:
    settings = Settings(tmp_path, tmp_path)
    await assay.arun("family:grid,n=1", agent=assay.agent(lambda attempt: None, name="n"), run="r", store=tmp_path)
    with pytest.raises(assay.UserError, match=r"started from Python with objects \(agent\)"):
        await resume_run("r", settings, Tally())
    await assay.arun("family:grid,n=1", agent=ExpertAgent, run="importable", store=tmp_path)
    assert (await resume_run("importable", settings, Tally())).run == "importable"


def test_a_plain_function_sees_and_calls_the_tools(run: Run) -> None:
    def counts(attempt: Any) -> str:
        (spec,) = attempt.tools.specs()
        before = attempt.tools.digest()
        seen = attempt.tools.call(spec.name, {"by": 10})
        return f"{spec.name}: {seen.content}, {before != attempt.tools.digest()}"

    (attempt,) = run(agent=assay.agent(counts))
    assert (attempt.outcome, attempt.ended) == ("pass", "add: 10, True")


def test_families_tasks_and_names_are_sources(run: Run) -> None:
    found = run([GridTasks, "family:maze,n=2", counting_task().task], agent="null", attempts=1)
    assert len(found) == 13


def test_runs_inside_a_running_loop_and_twice(run: Run) -> None:
    async def cell() -> list[str]:
        return [a.outcome for _ in range(2) for a in run(agent=solve)]

    assert asyncio.run(cell()) == ["pass", "pass"]


async def test_arun_runs_on_the_running_loop(tmp_path: Path) -> None:
    loops = []

    async def note_loop(attempt: Any) -> None:
        loops.append(asyncio.get_running_loop())

    await assay.arun([counting_task()], agent=note_loop, store=tmp_path)
    assert loops == [asyncio.get_running_loop()]


def test_progress_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="assay"):
        run(agent=solve, attempts=2)
    assert [r.getMessage() for r in caplog.records][-1].startswith("2 of 2 attempts ended: count@")


@pytest.mark.long
def test_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import assay\nprint(assay.run('family:grid,n=2', agent='expert').summary[0].passed)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


class Nameless:
    needs_model = False

    async def run(self, attempt: Any) -> None:
        """Does nothing."""


class Blocking(Nameless):
    name = "blocking"

    def run(self, attempt: Any) -> None:  # type: ignore[override]
        """Is not asynchronous."""


class Undeclared:
    name = "undeclared"

    async def run(self, attempt: Any) -> None:
        """Says nothing of models."""


class NeedsSize:
    def __init__(self, size: int) -> None:
        self.size = size

    def tasks(self, n: int, seed: int) -> list[Any]:
        return []


class FailsWithin(NeedsSize):
    def __init__(self) -> None:
        raise TypeError("no grid is so small")


MISUSES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "agent is a number": ({"agent": 3}, AgentDefinitionError, "cannot be an agent"),
    "agent is None": ({"agent": None}, OptionError, "no agent"),
    "agent list is empty": ({"agent": []}, OptionError, "no agent"),
    "function without parameters": ({"agent": lambda: 1}, AgentDefinitionError, "called with one argument"),
    "class without run": ({"agent": dict}, AgentDefinitionError, "no method run"),
    "agent without name": ({"agent": Nameless}, AgentDefinitionError, "has no `name`"),
    "agent without needs_model": ({"agent": Undeclared()}, AgentDefinitionError, "has no `needs_model`"),
    "run is not async": ({"agent": Blocking()}, AgentDefinitionError, "write `async def run`"),
    "unknown name": ({"agent": "oracl"}, PluginLoadError, "did you mean oracle"),
    "no model": ({"agent": "loop"}, MissingModelError, "asks a model"),
    "unknown option": ({"agent": solve, "atempts": 2}, OptionError, "did you mean attempts"),
    "unknown limit": ({"agent": solve, "max_turn": 2}, OptionError, "did you mean max_turns"),
    "option of a wrong type": ({"agent": solve, "attempts": "3"}, OptionError, "'3'; write attempts=3"),
    "options are a list": ({"agent": solve, "agent_options": ["a"]}, OptionError, "expected a dict, got a list of 1"),
    "option is an object": ({"agent": solve, "seed": object()}, OptionError, "give plain values"),
    "attempts below 1": ({"agent": solve, "attempts": 0}, assay.UserError, "must be at least 1"),
    "resume without a name": ({"agent": solve, "resume": True}, OptionError, "by its name"),
    "model is a number": ({"agent": solve, "model": 3}, OptionError, "is not a model"),
    "check is a number": ({"agent": solve, "checks": [3]}, CheckDefinitionError, "cannot be a check"),
    "check of nothing": ({"agent": solve, "checks": lambda: True}, CheckDefinitionError, "looks at nothing"),
    "check of files in a world": ({"agent": solve, "checks": lambda fils: True}, CheckDefinitionError, "'fils'"),
    "store is a number": ({"agent": solve, "store": 3}, OptionError, "is not a folder"),
    "progress is a number": ({"agent": solve, "progress": 3}, OptionError, "shows no progress"),
    "limits are a number": ({"agent": solve, "limits": 3, "max_turns": 3}, OptionError, "give a Limits"),
    "name of the run is a number": ({"agent": solve, "run": 3}, OptionError, "run of assay.run: expected"),
    "unknown field of a table": ({"agent": solve, "limits": {"turms": 3}}, OptionError, "did you mean turns"),
    "name of the run is empty": ({"agent": solve, "run": ""}, assay.UserError, "the name of the run is empty"),
    "backend of nobody, for a world": ({"agent": solve, "backend": "podmann"}, PluginLoadError, "did you mean podman"),
    "name of the run has a slash": ({"agent": solve, "run": "a/b"}, assay.UserError, "not a valid run name"),
    "model is a class": ({"agent": solve, "model": ScriptedBackend}, OptionError, "is not a model"),
    "tasks are None": ({"agent": solve, "tasks": [None]}, TaskSourceError, "names no tasks"),
    "family wants an option": ({"agent": solve, "tasks": NeedsSize}, TaskSourceError, "needs the options size"),
    "agent is a generator": ({"agent": yields}, AgentDefinitionError, "it is a generator"),
    "agent is a module": ({"agent": sys}, AgentDefinitionError, "module sys cannot be an agent"),
    "agent's name fails": ({"agent": NamedBadly()}, PluginLoadError, "ZeroDivisionError"),
    "store is a URL": ({"agent": solve, "store": "s3://bucket/runs"}, assay.UserError, "assay store copy"),
    "more attempts than a plan holds": ({"agent": solve, "attempts": 10**30}, assay.UserError, "at most 1,000,000"),
    "family fails in its constructor": (
        {"agent": solve, "tasks": FailsWithin},
        PluginLoadError,
        "family FailsWithin cannot be constructed: TypeError: no grid is so small",
    ),
    "tasks are empty": ({"agent": solve, "tasks": []}, TaskSourceError, "no tasks"),
    "task folder is absent": ({"agent": solve, "tasks": "nothere"}, assay.UserError, "does not exist"),
}


@pytest.mark.parametrize(("given", "error", "text"), MISUSES.values(), ids=MISUSES)
def test_each_misuse_has_its_error(run: Run, given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as raised:
        run(**given)
    assert isinstance(raised.value, assay.UserError)


def test_decorated_class_gets_name_and_needs_model() -> None:
    decorated = assay.agent(type("Mine", (), {"run": Undeclared.run}))
    assert (decorated.name, decorated.needs_model) == ("Mine", False)
    with pytest.raises(AgentDefinitionError, match="no method run"):
        assay.agent(dict)
