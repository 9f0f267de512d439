"""Asking a program in another language: one deadline, bounded replies, and what a time limit means."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections import Counter
from typing import Any

import pytest

import assay.verify.calls.stdio_worker as stdio
from assay.environments.interface import ExecResult
from assay.verify.calls import CalledProgram, CallPlan, CallProgram, ProgramLanguage
from assay.verify.calls.answers import LATE, STOPPED
from assay.verify.calls.judge import CallsQuestion, _Answers, _ruling
from assay.verify.calls.reference import FairAnswers
from assay.verify.calls.stdio_worker import WorkerAnswers, answer_by_worker

LANGUAGE = ProgramLanguage("X", "main.x", ("x", "main.x"), ("build", "main.x"), compile_s=60.0)
PLAN = CallPlan((), (), (), 3, program=CalledProgram(LANGUAGE, "shapes:area", ("width",)))
TIMED_OUT = ExecResult(-9, "", "", 1.0, timed_out=True)
BUILT = ExecResult(0, "", "", 0.1)


def call(width: int) -> CallProgram:
    return CallProgram("t", ([0, "call", ["g", "shapes", "area"], "", [width], []],), 0)


def result_of(*lines: str, timed_out: bool = False) -> ExecResult:
    return ExecResult(0, "".join(f"{line}\n" for line in lines), "", 0.1, timed_out=timed_out)


class ScriptedWorkspace:
    """Gives prepared results; one that timed out takes as long as its limit says."""

    def __init__(self, *results: ExecResult) -> None:
        self._results = list(results)
        self.limits: list[float] = []

    async def exec(self, _command: Any, *, timeout_s: float, **_: Any) -> ExecResult:
        self.limits.append(timeout_s)
        result = self._results.pop(0) if self._results else TIMED_OUT
        await asyncio.sleep(timeout_s if result.timed_out else 0)
        return result

    async def kill_all(self) -> None:
        pass


async def ask(workspace: Any, count: int, patience: float = 1.0) -> WorkerAnswers:
    inputs = [(n, call(n)) for n in range(count)]
    return await answer_by_worker(workspace, inputs, PLAN, program_s=1.0, patience=patience)


def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "START_S", 0.1)
    monkeypatch.setattr(stdio, "REQUEST_S", 0.05)


async def test_all_starts_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    short_limits(monkeypatch)
    workspace, started = ScriptedWorkspace(BUILT), time.monotonic()
    worker = await ask(workspace, 4)
    assert time.monotonic() - started < 2 * (0.1 + 4 * 0.05)
    assert len(workspace.limits) == 2
    assert worker.answers == {0: LATE, 1: STOPPED, 2: STOPPED, 3: STOPPED}


@pytest.mark.parametrize(("cpu_s", "ending"), [(0.29, "time"), (0.1, LATE), (None, LATE)])
async def test_a_program_that_computed_for_the_limit_is_slow_itself(
    cpu_s: float | None, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_limits(monkeypatch)
    workspace = ScriptedWorkspace(BUILT, ExecResult(-9, "", "", 0.3, timed_out=True, cpu_s=cpu_s))
    assert (await ask(workspace, 4)).answers[0] == ending


async def test_a_program_that_dies_is_started_again_within_the_deadline() -> None:
    workspace = ScriptedWorkspace(BUILT, result_of('{"result": 0}'), result_of('{"result": 2}'))
    worker = await ask(workspace, 3)
    assert worker.answers[1] == "died"
    assert [worker.answers[n][0][2] for n in (0, 2)] == [0, 2]
    assert workspace.limits[2] <= workspace.limits[1] <= 15 + 3 * 0.5


async def test_limits_grow_with_the_patience() -> None:
    workspace = ScriptedWorkspace(BUILT, result_of('{"result": 0}'))
    await ask(workspace, 1, patience=3.0)
    assert workspace.limits == [pytest.approx(180), pytest.approx(46.5, abs=1)]


async def test_a_compiler_that_ends_too_late_leaves_all_answers_late(monkeypatch: pytest.MonkeyPatch) -> None:
    late = ExecResult(-9, "", "", 60.0, timed_out=True)
    workspace = ScriptedWorkspace()
    monkeypatch.setattr(workspace, "exec", lambda *_, **__: asyncio.sleep(0, late))
    assert (await ask(workspace, 2)).answers == {0: LATE, 1: LATE}


WIDE = '{"result": [' + "[]," * 10_000 + "[]]}"


@pytest.mark.long
async def test_nodes_are_counted_over_all_lines_and_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_TOTAL_NODES", 100_000)
    workspace = ScriptedWorkspace(BUILT, result_of(*[WIDE] * 5), result_of(*[WIDE] * 40))
    worker = await ask(workspace, 45)
    read = [n for n, answer in worker.answers.items() if not isinstance(answer, str)]
    assert read == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert worker.answers[5] == "died"


@pytest.mark.long
async def test_the_event_loop_runs_while_a_reply_is_parsed() -> None:
    workspace = ScriptedWorkspace(BUILT, result_of(*[WIDE] * 30))
    asked = asyncio.create_task(ask(workspace, 30))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert turns > 3


async def test_a_flood_of_empty_lines_makes_no_list_of_them() -> None:
    workspace = ScriptedWorkspace(BUILT, ExecResult(0, "\n" * 4_000_000, "", 0.1))
    tracemalloc.start()
    worker = await ask(workspace, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert worker.answers == {}
    assert peak < 16_000_000


def ruling(*answers: Any) -> Any:
    questions = [CallsQuestion(n, n, call(n)) for n in range(3)]
    right = FairAnswers({n: ([0, "ok", n],) for n in range(3)}, Counter())
    given = {n: answer for n, answer in enumerate(answers) if answer is not None}
    return _ruling(PLAN, b"seed", [call(n) for n in range(3)], _Answers(questions, WorkerAnswers(given), right))


RIGHT = ([0, "ok", 0],)


@pytest.mark.parametrize("answers", [(RIGHT, LATE, STOPPED), (LATE, STOPPED, STOPPED), (RIGHT, STOPPED, STOPPED)])
def test_a_time_limit_without_a_wrong_answer_is_no_result(answers: tuple[Any, ...]) -> None:
    result = ruling(*answers)
    assert (result.status, result.marks) == ("unknown", ("no_result", "time_limit"))
    assert "within the time limit" in result.reason


@pytest.mark.parametrize(
    "answers",
    [(RIGHT, RIGHT, LATE), (RIGHT, "died", LATE), (RIGHT, "time", STOPPED), (RIGHT, None, LATE)],
    ids=["wrong", "died", "processor-time", "malformed"],
)
def test_a_wrong_answer_decides_also_beside_a_time_limit(answers: tuple[Any, ...]) -> None:
    result = ruling(*answers)
    assert (result.status, result.marks) == ("fail", ())


def test_the_worse_of_two_answers_to_one_input_counts() -> None:
    right = FairAnswers({0: RIGHT}, Counter())
    questions = [CallsQuestion(n, 0, call(0)) for n in range(2)]
    for answers in ({0: LATE, 1: "died"}, {0: "died", 1: LATE}):
        given = _Answers(questions, WorkerAnswers(answers), right)
        assert _ruling(PLAN, b"seed", [call(0)], given).status == "fail"
