"""`assay stats --table ...` on a small store."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded, Verdict, VerdictAdded
from assay.store import RunStore, annotate
from assay.verify.route_check import ROUTE

pytestmark = pytest.mark.newest
GOOD = {"weak": 2, "fair": 4, "strong": 7}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with RunStore.create(tmp_path, "r", {"config": {"agent_options": {"depth": 3}}}) as store:
        for agent, good in GOOD.items():
            for n in range(8):
                for number in range(2):
                    chain = f"t{n}@{agent}-{number}.0"
                    passed = n < good - number
                    started = AttemptStarted("r", chain[:-2], f"t{n}", "d", agent, None, 0, number, at=1.0)
                    verdict = Verdict("tests", "outcome", "pass" if passed else "fail", float(passed), "")
                    used = {"cost_usd": 0.1 * good, "prompt_tokens": 90.0, "completion_tokens": 10.0, "wall_s": 2.0}
                    ended = AttemptEnded("done", at=3.0, metrics=used)
                    store.append(chain, [started, VerdictAdded(verdict), ended])
    return tmp_path


def assay(store: Path, *words: str) -> Result:
    return CliRunner().invoke(build_app(), ["stats", *words, "--store", str(store)])


def test_attempts_with_a_second_draw_are_told_and_can_be_left_out(tmp_path: Path) -> None:
    agent = f"{Path(__file__).with_name('redrawing.py')}:SecondDrawAgent"
    run = ["run", "family:adventure,rooms=2,locks=0,n=3,seed=1", "--agent", agent, "--run", "drawn"]
    done = CliRunner().invoke(build_app(), [*run, "--store", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (group,) = json.loads(assay(tmp_path, "--json").stdout)["groups"]
    assert (group["passed"], group["redrawn"]) == (3, 3)
    assert "3 attempts had more than one draw" in assay(tmp_path).output
    (group,) = json.loads(assay(tmp_path, "--json", "--no-redrawn").stdout)["groups"]
    assert (group["passed"], group["unknown"], group["redrawn"]) == (0, 3, 3)


def test_an_attempt_whose_earlier_trial_is_damaged_is_counted_as_drawn_again(tmp_path: Path) -> None:
    agent = f"{Path(__file__).with_name('redrawing.py')}:SecondDrawAgent"
    run = ["run", "family:adventure,rooms=2,locks=0,n=2,seed=2", "--agent", agent, "--run", "damaged"]
    assert CliRunner().invoke(build_app(), [*run, "--store", str(tmp_path)]).exit_code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / "damaged" / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE events SET body = x'7b' WHERE type = 'step' AND chain LIKE '%.0'")
    told = assay(tmp_path, "--json")
    assert told.exit_code == 0, told.output
    (group,) = json.loads(told.stdout)["groups"]
    assert (group["passed"], group["redrawn"]) == (2, 2)


@pytest.mark.long
def test_every_table_is_there_in_every_form(store: Path) -> None:
    told = json.loads(assay(store, "--table", "all", "--json").stdout)
    assert list(told["tables"]) == [
        *("actors", "agreement", "capabilities", "clauses", "context", "conversations", "economy", "efficiency"),
        *("evidence", "flakes", "grid", "instructions", "pairs", "picks", "pointing", "ranking", "refusals"),
        *("reliability", "routes", "scores", "semi-online", "spending", "tasks"),
    ]
    for form in ("text", "markdown", "latex"):
        shown = assay(store, "--table", "all", "--format", form)
        assert shown.exit_code == 0
        assert all(name in shown.stdout for name in ("rates", *told["tables"]))


def test_a_table_for_a_report_says_of_which_runs_it_is(store: Path, tmp_path: Path) -> None:
    assert assay(store, "r", "--out", str(tmp_path / "report.md")).exit_code == 0
    written = (tmp_path / "report.md").read_text()
    assert written.startswith("| agent |")
    assert "Runs: r (20" in written
    assert "same-process" in written


def test_a_row_of_runs_with_different_tasks_is_named(store: Path) -> None:
    with RunStore.create(store, "other", {}) as run:
        started = AttemptStarted("other", "u0@weak-0", "u0", "d", "weak", None, 0, 0, at=1.0)
        verdict = Verdict("tests", "outcome", "pass", 1.0, "")
        run.append("u0@weak-0.0", [started, VerdictAdded(verdict), AttemptEnded("done", at=3.0)])
    assert "weak: the row is of runs with different tasks: r, other" in assay(store, "r", "other").stderr
    assert "different tasks" not in assay(store, "r").stderr


def test_attempts_that_all_agree_are_no_plan(store: Path) -> None:
    with RunStore.create(store, "same", {}) as run:
        for number in range(3):
            name = f"t{number}@weak-0"
            started = AttemptStarted("same", name, f"t{number}", "d", "weak", None, 0, 0, at=1.0)
            verdict = Verdict("tests", "outcome", "fail", 0.0, "")
            run.append(f"{name}.0", [started, VerdictAdded(verdict), AttemptEnded("done", at=3.0)])
    power = ["power", "same", "--store", str(store)]
    told = CliRunner().invoke(build_app(), power)
    assert (told.exit_code, "say which rate you expect with --rate" in told.stderr) == (2, True)
    assert CliRunner().invoke(build_app(), [*power, "--rate", "0.3"]).exit_code == 0


def test_spending_names_the_front(store: Path) -> None:
    found = csv.DictReader(io.StringIO(assay(store, "--table", "spending", "--format", "csv").stdout))
    costs = {row["agent"]: row for row in found if row["measure"] == "cost_usd"}
    assert {agent: row["front"] for agent, row in costs.items()} == {"weak": "yes", "fair": "yes", "strong": "yes"}
    assert costs["strong"]["a pass"] == "0.8615"  # 16 attempts at 0.7 for 13 passes


def test_tasks_flakes_and_grid_say_what_was_recorded(store: Path) -> None:
    told = json.loads(assay(store, "--table", "tasks", "--table", "flakes", "--table", "grid", "--json").stdout)[
        "tables"
    ]
    bands = {one["task"]: one["band"] for one in told["tasks"]}
    assert (bands["t0"], bands["t3"], bands["t6"], bands["t7"]) == ("always", "middling", "hard", "never")
    assert {(one["task"], one["agent"]) for one in told["flakes"]} == {
        (f"t{good - 1}", agent) for agent, good in GOOD.items()
    }
    assert told["grid"]["factors"] == ["agent", "model"]
    assert [part["name"] for part in told["grid"]["components"]] == ["agent", "task", "residual"]


def test_a_process_score_gets_its_report_card(store: Path) -> None:
    with RunStore.open(store, "r") as run:
        rows = run.attempts()
    for row in rows:
        annotate(store, "r", row.chain, [VerdictAdded(Verdict("quality", "process", "pass", row.score, ""))])
    card = json.loads(assay(store, "--table", "scores", "--json").stdout)["tables"]["scores"]["quality"]
    assert (card["n"], card["auc"], card["ece"]) == (48, 1.0, 0.0)


def test_the_routes_of_attempts_are_summed_by_skill_and_other_evidence_is_left_out(store: Path) -> None:
    with RunStore.open(store, "r") as run:
        chains = [row.chain for row in run.attempts() if row.agent == "weak"][:3]
    found = (
        {"needed": {"follow": 3, "count": 1}, "done": {"follow": 3, "count": 1}, "lost": ""},
        {"needed": {"follow": 2}, "done": {"follow": 1}, "lost": "stop", "left": None},
        {"needed": "all"},
    )
    for chain, data in zip(chains, found, strict=True):
        judged = VerdictAdded(Verdict(ROUTE, "process", "pass", 1.0, ""))
        annotate(store, "r", chain, [EvidenceAdded(Evidence("e", "audit", ROUTE, data)), judged])
    rows = json.loads(assay(store, "--table", "routes", "--json").stdout)["tables"]["routes"]
    sums = {row["skill"]: (row["attempts"], row["needed"], row["done"], row["lost"]) for row in rows}
    assert sums == {"follow": (2, 5, 4, 0), "count": (1, 1, 1, 0), "stop": (0, 0, 0, 1)}


def test_a_judge_that_says_more_than_is_true_is_reported(store: Path) -> None:
    with RunStore.open(store, "r") as run:
        rows = run.attempts()
    for row in rows:  # the judge of `fair` takes every try for done, that of `strong` is right, and `weak` has none
        said = {"fair": 1.0, "strong": 1.0 if row.outcome == "pass" else 0.9}.get(row.agent)
        tries = [{"branch": 0, "score": 0.0}, {"branch": 1, "score": said}]
        data = {"by": "retry", "judge": row.agent, "privileged": row.agent == "strong", "tries": tries, "picked": 1}
        broken = {"by": "retry", "tries": "many"}
        for found in (data, broken):
            annotate(store, "r", row.chain, [EvidenceAdded(Evidence("e", "audit", "pick", found))])
    picks = json.loads(assay(store, "--table", "picks", "--json").stdout)["tables"]["picks"]
    found = {one["agent"]: (one["attempts"], one["said"], one["gap"] > 0, one["overfits"]) for one in picks}
    assert found == {"fair": (16, 1.0, True, True), "strong": (16, 13 / 16, False, False)}
    assert "judge overfits" in assay(store, "--table", "picks").stdout


def test_the_ranking_of_two_halves_or_of_two_runs(store: Path) -> None:
    shown = assay(store, "--table", "ranking").stdout
    assert shown.splitlines()[1].split()[:2] == ["3", "1.000"]


def test_wrong_tables_are_answered_in_a_paragraph(store: Path) -> None:
    unknown = assay(store, "--table", "grids")
    assert (unknown.exit_code, "unknown table 'grids'" in unknown.stderr) == (2, True)
    several = assay(store, "--table", "all", "--format", "csv")
    assert (several.exit_code, "csv writes one table" in several.stderr) == (2, True)
