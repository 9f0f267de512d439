"""What is said while a run goes on, on a terminal and in a log."""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay.cli import live
from assay.cli.live import LineDisplay, TableDisplay, display, progress_line, render_progress
from assay.rollout import PlannedAttempt, Tally, TrialResult
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick


def planned(name: str) -> PlannedAttempt:
    task = counting_task()
    return PlannedAttempt(name, task, 0, 0, task.task.limits)


def result(outcome: str | None = "pass", **more: Any) -> TrialResult:
    metrics = {"prompt_tokens": 900.0, "completion_tokens": 100.0, "cost_usd": 0.25}
    plain = {"score": None, "ended": "done", "stopped": None, "broke": None, "error": None, "metrics": metrics}
    return TrialResult(**({"outcome": outcome} | plain | more))  # type: ignore[arg-type]


def finish(tally: Tally, *results: TrialResult) -> None:
    for number, one in enumerate(results):
        tally.started(planned(f"t@{number}"))
        tally.finished(planned(f"t@{number}"), one)


def test_a_line_says_what_was_spent_and_how_long_it_takes() -> None:
    tally = Tally()
    tally.begin(total=4, done=1)
    tally.began -= 20
    finish(tally, result(), result("fail"))
    assert progress_line(tally) == "3/4 done: 1 before, 1 pass, 1 fail; 2,000 tokens; $0.5000; about 10 s left"


@pytest.mark.parametrize(("priced", "says"), [(True, "at least $0.2500"), (False, "cost unknown")])
def test_a_cost_that_is_not_known_is_no_zero(priced: bool, says: str) -> None:
    tally = Tally()
    tally.begin(total=2, done=0)
    finish(tally, *([result()] * priced), result(metrics={"prompt_tokens": 5.0, "completion_tokens": 1.0}))
    assert says in progress_line(tally)


def test_a_log_gets_rarer_lines_and_every_breakage(capsys: pytest.CaptureFixture[str]) -> None:
    shown = LineDisplay()
    shown.begin(total=300, done=0)
    finish(shown, *[result()] * 200)
    shown.finished(planned("t@9"), result(None, broke="sandbox", error="no \x1b[2Jspace"))
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[0] == "300 attempts"
    assert len(told.err.splitlines()) == 3
    assert told.err.splitlines()[-1] == "t@9: sandbox failed: no \\x1b[2Jspace"


def test_the_pace_of_lines_follows_the_age_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [1000.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    shown = LineDisplay()
    monkeypatch.setattr(shown, "tell", lambda text: said.append(now[0]))
    shown.begin(total=10_000, done=0)
    for _ in range(7200):
        now[0] += 1.0
        finish(shown, result())
    assert 40 < len(said) < 110
    assert said[-1] - said[-2] > 300


def test_the_table_shows_counts_spending_and_what_runs_longest() -> None:
    tally = TableDisplay()
    tally.begin(total=9, done=0)
    finish(tally, result(), result("unknown", stopped="turns"))
    for number in range(6):
        tally.started(planned(f"slow-{number}\x1b[31m"))
        tally.running[f"slow-{number}\x1b[31m"] -= 100 - number
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=False).print(render_progress(tally))
    told = out.getvalue()
    assert all(
        words in told for words in ("2 of 9 attempts", "2,000", "$0.5000", "slow-0\\x1b[31m  2 min", "and 2 more")
    )
    assert "\x1b" not in told
    assert "slow-5" not in told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("term", "ci", "kind"), [("xterm", "", TableDisplay), ("dumb", "", LineDisplay), ("xterm", "true", LineDisplay)]
)
def test_ci_and_dumb_terminals_get_lines(term: str, ci: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(os, "environ", {**os.environ, "TERM": term, "CI": ci})
    with display() as shown:
        assert type(shown) is kind


def test_what_broke_stays_above_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(os, "environ", {**os.environ, "TERM": "xterm", "CI": ""})
    with display() as table:
        table.begin(total=1, done=0)
        table.retrying(planned("t@0"), result(None, broke="sandbox", error="it is gone"))
    assert "t@0: sandbox failed, trying again: it is gone" in shown.getvalue()
    assert live.LINE_EVERY_S == 10.0


@pytest.mark.long
def test_piped_a_run_prints_nothing_but_its_results(tmp_path: Path) -> None:
    import subprocess

    agent = Path(__file__).parents[1] / "rollout" / "agents.py"
    code = (
        "import sys; from assay.cli import main; from assay.rollout import run_inputs\n"
        "from tests.rollout.counting import counting_task\n"
        "run_inputs.find_tasks = lambda names: (counting_task(),)\n"
        f"sys.argv = ['assay', 'run', 'x', '--agent', '{agent}:Solver', '--attempts', '3', '--store', '{tmp_path}']\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.splitlines()[0].split()[:3] == ["agent", "model", "tasks"]
    assert len(done.stdout.splitlines()) == 2
    assert "3/3 done: 3 pass" in done.stderr
