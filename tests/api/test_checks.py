"""Checks given to a run as functions: what they see, what they return, what is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import assay
from assay.environments.interface import WorkspaceSpec
from assay.errors import CheckDefinitionError, PluginLoadError, UserError
from assay.records import Check
from assay.rollout import ReverifyConfig, reverify
from assay.rollout.diagnosis import diagnose_run
from assay.settings import Settings
from assay.store import RunStore, audit
from assay.verify import CheckInput, function_check
from tests.rollout.agents import Solver
from tests.rollout.counting import counting_task

Judge = Callable[..., assay.Verdict]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Returns the verdict of one check of an attempt that passes the task's own."""

    def call(function: Any) -> assay.Verdict:
        result = assay.run([counting_task()], agent=Solver, checks=function, store=tmp_path / "store")
        (_, verdict, _) = result.attempts[0].verdicts
        return verdict

    return call


RETURNS: dict[str, tuple[Any, tuple[str, float | None]]] = {
    "True": (True, ("pass", 1.0)),
    "False": (False, ("fail", 0.0)),
    "1.0": (1.0, ("pass", 1.0)),
    "0.5": (0.5, ("fail", 0.5)),
    "a verdict": (assay.Verdict("x", "outcome", "unknown", None, "cannot tell"), ("unknown", None)),
    "None": (None, ("error", None)),
    "a text": ("yes", ("error", None)),
    "2.0": (2.0, ("error", None)),
    "not a number": (float("nan"), ("error", None)),
}


@pytest.mark.newest
@pytest.mark.parametrize(("returned", "expected"), RETURNS.values(), ids=RETURNS)
def test_returned_values_become_verdicts(judge: Judge, returned: Any, expected: tuple[str, float | None]) -> None:
    verdict = judge(lambda state: returned)
    assert (verdict.status, verdict.score) == expected
    assert verdict.kind == "outcome"


@pytest.mark.newest
def test_exception_is_an_error_with_its_text(judge: Judge) -> None:
    verdict = judge(lambda state: state.facts["absent"])
    assert verdict.status == "error"
    assert "KeyError: 'absent'" in verdict.reason


@pytest.mark.newest
def test_world_check_sees_facts_and_transcript(judge: Judge) -> None:
    async def counted(state: Any, transcript: assay.Trajectory, task: assay.Task) -> bool:
        return state.facts == {"value": 10} and len(transcript.steps) == 2 and task.id == "count"

    verdict = judge(counted)
    assert (verdict.check, verdict.status, verdict.separation) == ("counted", "pass", "no-agent-code")
    assert len(verdict.evidence) == 2


@pytest.mark.newest
def test_threshold_decides_what_passes(judge: Judge) -> None:
    assert judge(assay.check(lambda state: 0.5, name="half", threshold=0.5)).status == "pass"
    with pytest.raises(CheckDefinitionError, match=r"must be in \[0, 1\]"):
        assay.check(lambda state: 0.5, threshold=2)


@pytest.mark.newest
def test_check_that_does_not_return_is_an_error(judge: Judge) -> None:
    @assay.check(timeout_s=0.05)
    def endless(state: Any) -> bool:
        time.sleep(0.4)
        return True

    verdict = judge(endless)
    assert (verdict.status, "did not return within 0.05 s" in verdict.reason) == ("error", True)


@pytest.mark.newest
async def test_patience_for_a_busy_host_extends_the_time_limit() -> None:
    def sleeps(task: Any) -> bool:
        time.sleep(0.2)
        return True

    slow = assay.check(sleeps, timeout_s=0.1)
    place: Any = SimpleNamespace(name="namespaces", digest="d")
    task, spec = counting_task().task, WorkspaceSpec()
    given = CheckInput(task, None, Check("sleeps", "function"), place, spec, place, (), place, {})
    late, patient = await slow.judge(given), await slow.judge(given._replace(patience=50.0))
    assert (late.verdict.status, set(late.verdict.marks)) == ("error", {"no_result", "time_limit"})
    assert patient.verdict.status == "pass"


@pytest.mark.newest
def test_check_cannot_take_the_name_of_a_tasks_own(judge: Judge) -> None:
    with pytest.raises(CheckDefinitionError, match="has a check 'ten' of its own"):
        judge(assay.check(lambda state: True, name="ten"))


class Reads:
    def __call__(self, state: Any) -> bool:
        return bool(state)


class Broken:
    kind = "broken"

    def __init__(self) -> None:
        raise TypeError("the table has no column 'n'")

    async def judge(self, given: Any) -> Any:
        """Never reached."""


@pytest.mark.newest
def test_an_error_inside_a_constructor_is_shown_with_its_line(judge: Judge) -> None:
    with pytest.raises(
        PluginLoadError, match=r"check Broken cannot be constructed: TypeError: the table has no column"
    ):
        judge(Broken)
    with pytest.raises(CheckDefinitionError, match="check NeedsName needs the options name"):
        judge(NeedsName)


class NeedsName(Broken):
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.newest
def test_digest_of_a_check_tells_apart_objects_and_arguments() -> None:
    def at_least(limit: int, state: Any) -> bool:
        return state.facts["value"] >= limit

    functions = [Reads(), partial(at_least, 1), partial(at_least, 2), lambda state: True]
    assert len({assay.check(function).digest for function in functions}) == len(functions)


@pytest.mark.newest
def test_digest_of_a_check_without_text_is_the_same_in_every_process() -> None:
    code = "f = lambda state: state in {'a', 'b', 'c'} and (lambda: state)"
    show = f"import assay\nexec({code!r})\nprint(assay.check(f).digest)"
    digests = {
        subprocess.run([sys.executable, "-c", show], capture_output=True, check=True, env=os.environ | seed).stdout
        for seed in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    }
    assert len(digests) == 1


@pytest.mark.newest
def test_every_check_must_pass_and_the_manifest_names_them(tmp_path: Path) -> None:
    def never(state: Any) -> bool:
        return False

    result = assay.run([counting_task()], agent=Solver, checks=[never], store=tmp_path)
    assert [a.outcome for a in result] == ["fail"]
    with RunStore.open(tmp_path, result.runs[0]) as store:
        assert list(store.manifest()["checks"]) == ["never"]


@pytest.mark.newest
async def test_task_of_a_world_names_a_function(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import assay\n@assay.check\ndef two(transcript, state):\n    return len(transcript.steps) == 2\n")
    task = msgspec.structs.replace(counting_task().task, checks=(Check("two", str(file)), Check("x", "script")))
    result = await assay.arun(task, agent=Solver, store=tmp_path / "store")
    two, script, _ = result.attempts[0].verdicts
    assert (two.status, script.status) == ("pass", "error")
    assert "cannot judge an in-process world" in script.reason
    config = ReverifyConfig(again=1, allow_task_code=True)
    report = await reverify(result.runs[0], config, Settings(tmp_path, tmp_path / "store"))
    assert {r.check: r.mark for r in report.results}["two"] == "agree"


@pytest.mark.newest
def test_check_of_a_world_that_does_not_load_names_the_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import nowhere\n")
    task = msgspec.structs.replace(counting_task().task, checks=(Check("broken", str(file)),))
    result = assay.run(task, agent=Solver, store=tmp_path / "store")
    broken, _ = result.attempts[0].verdicts
    assert (broken.status, "No module named 'nowhere'" in broken.reason) == ("error", True)
    with RunStore.open(tmp_path / "store", result.runs[0]) as store:
        assert "every attempt broke (1 of 1: verifier failed in 1)" in (diagnose_run(store.attempts()).all_broke or "")


def test_a_kind_of_check_that_does_not_exist_is_refused_before_the_run(tmp_path: Path) -> None:
    task = msgspec.structs.replace(counting_task().task, checks=(Check("y", "scrpt"),))
    with pytest.raises(UserError, match="task 'count': no check is called 'scrpt'; did you mean script"):
        assay.run(task, agent=Solver, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.newest
async def test_reverification_says_that_a_python_check_is_gone(tmp_path: Path) -> None:
    tasks = [counting_task()]
    result = await assay.arun(tasks, agent=Solver, checks=lambda state: True, store=tmp_path)
    config = ReverifyConfig(again=1, allow_task_code=True)
    report = await reverify(result.runs[0], config, Settings(tmp_path, tmp_path))
    assert {r.check: r.mark for r in report.results} == {"ten": "agree", "<lambda>": "cannot"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> assay.AttemptResult:
    """An attempt in a sandbox, with checks that look at it in every way."""
    folder = tmp_path_factory.mktemp("checks")
    assay.init_task(folder / "sum")

    def reads(files: Any) -> bool:
        return "sum.txt" in files and files["sum.txt"] == "32\n" and list(files) == ["/workspace/sum.txt"]

    def misses(files: Any) -> bool:
        return bool(files["absent.txt"])

    def runs(state: Any) -> bool:
        return state.run("cat sum.txt").stdout == "32\n" and [c.path for c in state.changes] == ["/workspace/sum.txt"]

    def rereads(files: Any, state: Any) -> bool:
        before = files["sum.txt"], files["sum.txt"]
        state.run("echo 33 > sum.txt")
        return (*before, files["sum.txt"]) == ("32\n", "32\n", "33\n")

    checks = [reads, misses, runs, rereads]
    result = assay.run(folder / "sum", agent="oracle", checks=checks, store=folder / "store")
    assert audit(folder / "store", result.runs[0]) == ()
    return result.attempts[0]


def test_files_are_read_and_cited(judged: assay.AttemptResult) -> None:
    verdict = next(v for v in judged.verdicts if v.check == "reads")
    assert (verdict.status, verdict.separation) == ("pass", "no-agent-code")
    cited = [e for e in judged.trajectory.evidence if e.id in verdict.evidence and e.kind == "file"]
    assert [(e.data["path"], e.data["text"]) for e in cited] == [("/workspace/sum.txt", "32\n")]


def test_each_content_is_cited_once(judged: assay.AttemptResult) -> None:
    verdict = next(v for v in judged.verdicts if v.check == "rereads")
    cited = [e.data["text"] for e in judged.trajectory.evidence if e.id in verdict.evidence and e.kind == "file"]
    assert (verdict.status, cited) == ("pass", ["32\n", "33\n"])


@pytest.mark.long
def test_files_beyond_the_bound_are_cited_by_one_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_check, "MAX_CITED", 2)
    assay.init_task(tmp_path / "sum")

    def all_there(files: Any) -> bool:
        return all(files[path] for path in files) and len(files) == 4

    agent = assay.agent(lambda attempt: attempt.shell("for i in 1 2 3 sum; do echo 32 > $i.txt; done"), name="writer")
    (attempt,) = assay.run(tmp_path / "sum", agent=agent, checks=all_there, store=tmp_path / "store").attempts
    verdict = next(v for v in attempt.verdicts if v.check == "all_there")
    kinds = [e.kind for e in attempt.trajectory.evidence if e.id in verdict.evidence]
    assert (verdict.status, kinds[:3]) == ("pass", ["file", "file", "files"])


def test_absent_file_fails_and_is_cited(judged: assay.AttemptResult) -> None:
    verdict = next(v for v in judged.verdicts if v.check == "misses")
    assert (verdict.status, verdict.reason) == ("fail", "/workspace/absent.txt is absent")
    assert any(e.data.get("problem") == "absent" for e in judged.trajectory.evidence if e.id in verdict.evidence)


def test_command_in_the_state_is_cited_and_leaves_the_grade_unknown(judged: assay.AttemptResult) -> None:
    verdict = next(v for v in judged.verdicts if v.check == "runs")
    assert (verdict.status, verdict.separation) == ("pass", "unknown")
    cited = [e for e in judged.trajectory.evidence if e.id in verdict.evidence and e.kind == "execution"]
    assert cited[0].data["argv"] == ["/bin/sh", "-c", "cat sum.txt"]


@pytest.mark.long
def test_check_that_forgets_its_return_blames_no_agent(tmp_path: Path) -> None:
    assay.init_task(tmp_path / "sum")

    def forgets(files: Any) -> Any:
        if "sum.txt" in files:
            assert files["sum.txt"] == "32\n"
            return None  # as without a `return`
        return False

    (attempt,) = assay.run(tmp_path / "sum", agent="oracle", checks=forgets, store=tmp_path / "store").attempts
    verdict = next(v for v in attempt.verdicts if v.check == "forgets")
    assert (attempt.outcome, verdict.status, verdict.marks) == ("error", "error", ())
    assert "check 'forgets': the function" in verdict.reason
    assert ".forgets returned None, perhaps for want of a `return`" in verdict.reason


@pytest.mark.long
def test_decorated_functions_in_files_are_plugins(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import assay\n@assay.agent\ndef add(attempt):\n    attempt.shell('echo 32 > sum.txt')\n"
        "@assay.check\ndef right(files):\n    return files['sum.txt'] == '32\\n'\n"
    )
    assay.init_task(tmp_path / "sum")
    mine = str(tmp_path / "mine.py")
    (attempt,) = assay.run(tmp_path / "sum", agent=mine, checks=mine, store=tmp_path / "store").attempts
    assert (attempt.outcome, [v.check for v in attempt.verdicts]) == ("pass", ["tests", "right", "integrity"])


@pytest.mark.long
async def test_function_named_by_a_task_is_judged_again_alike(tmp_path: Path) -> None:
    check = tmp_path / "mine.py"
    check.write_text("import assay\n@assay.check\ndef one_step(transcript):\n    return len(transcript.steps) == 1\n")
    assay.init_task(tmp_path / "sum")
    named = f'\n[[metadata.assay.checks]]\nname = "one_step"\nkind = "{check}"\n'
    with (tmp_path / "sum" / "task.toml").open("a") as file:
        file.write(named)
    result = await assay.arun(tmp_path / "sum", agent="oracle", store=tmp_path / "store", allow_task_code=True)
    settings = Settings(Settings.from_environment().cache, tmp_path / "store")
    report = await reverify(result.runs[0], ReverifyConfig(again=1, allow_task_code=True), settings)
    assert {r.check: r.mark for r in report.results}["one_step"] == "agree"
