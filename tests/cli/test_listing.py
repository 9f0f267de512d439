"""Lists of runs and attempts: state, dates, paging; and numbers in words that fit them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.cli.compare import ComparedConfiguration
from assay.cli.compare import _row as compare_row
from assay.cli.live import progress_line, render_progress
from assay.cli.output import quantity
from assay.cli.sandboxed_synthesis import ProgressLines
from assay.cli.synth import _gate_rows, _print_reasons, _say_kinds
from assay.cli.tables import print_summaries
from assay.records import AttemptEnded, AttemptStarted, Body, Verdict, VerdictAdded
from assay.rollout import Tally
from assay.statistics import (
    AttemptOutcome,
    GateRule,
    TaskCount,
    compare_paired,
    decide_gate,
    estimate_clustering,
    format_p_value,
    summarise,
)
from assay.store import RunStore, seal
from assay.synthesis import SynthesisConfig, SynthesisReport
from assay.synthesis.report import DroppedCandidate, GateRow, ManifestEntry

pytestmark = pytest.mark.quick
PLAN = {"config": {"tasks": ["-"], "attempts": 1}, "tasks": {"a": "d", "b": "d"}}


def record(root: Path, run: str, *tasks: str, retry: int = 0, ended: bool = True) -> None:
    with RunStore.create(root, run, PLAN) if run not in _names(root) else RunStore.open(root, run, write=True) as store:
        for task in tasks:
            started = AttemptStarted(run, f"{task}@0", task, "d", "loop", "openai:m", 1, 0, retry, at=1.0 + retry)
            fail = VerdictAdded(Verdict("tests", "outcome", "fail", None, "no"))
            bodies: list[Body] = [started, fail, AttemptEnded("done", at=2.0)] if ended else [started]
            store.append(f"{task}@0.{retry}", bodies)


def _names(root: Path) -> list[str]:
    return [path.name for path in (root / "runs").glob("*")]


def listed(root: Path, *words: str) -> tuple[list[str], str]:
    result = CliRunner().invoke(build_app(), ["ls", *words, "--store", str(root)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines(), result.stderr


def test_runs_are_listed_with_date_agent_model_outcomes_and_state(tmp_path: Path) -> None:
    record(tmp_path, "cut", "a")
    record(tmp_path, "whole", "a", "b")
    record(tmp_path, "done", "a", "b")
    seal(tmp_path, "done")
    head, *lines = listed(tmp_path, "--runs")[0]
    assert head.split() == ["run", "created", "agent", "model", "tasks", "attempts", "outcomes", "state"]
    cells = {line.split()[0]: re.split(r"\s{2,}", line) for line in lines}
    assert cells["cut"][2:] == ["loop", "openai:m", "1", "1 of 2", "1 fail", "interrupted"]
    assert [cells[name][-2:] for name in ("whole", "done")] == [["2 fail", "finished"], ["2 fail", "sealed"]]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", cells["cut"][1])


def test_the_newest_run_is_named_where_there_are_others(tmp_path: Path) -> None:
    record(tmp_path, "first", "a")
    shown = CliRunner().invoke(build_app(), ["ls", "--store", str(tmp_path)])
    assert (shown.exit_code, shown.stderr) == (0, "")
    record(tmp_path, "second", "a")
    shown = CliRunner().invoke(build_app(), ["ls", "--store", str(tmp_path)])
    assert (shown.exit_code, shown.stderr) == (0, "run second, the newest of 2\n")


def test_a_run_that_a_process_writes_is_running(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", PLAN):
        assert listed(tmp_path, "--runs")[0][1].endswith("running")
    summary = json.loads("\n".join(listed(tmp_path, "--runs", "--json")[0]))["summaries"][0]
    assert (summary["state"], summary["planned"]) == ("interrupted", 2)


def test_a_run_whose_attempts_are_still_with_its_nodes_says_where_they_are(tmp_path: Path) -> None:
    place = {"id": "1", "nodes": None, "url": "file:///shared/objects"}
    RunStore.create(tmp_path, "far", {**PLAN, "place": place}).close()
    said = ["the attempts of run far are with its nodes until it is complete: `assay status far` shows them"]
    assert listed(tmp_path, "far")[0] == said


def test_limit_and_offset_page_through_the_newest_runs(tmp_path: Path) -> None:
    for number in range(4):
        record(tmp_path, f"r{number}", "a")
    lines, hint = listed(tmp_path, "--runs", "--limit", "1", "--offset", "1")
    assert [line.split()[0] for line in lines] == ["run", "r2"]
    assert hint == "not listed: 2 older runs; --offset 2 lists further ones, --limit 0 all\n"
    assert len(listed(tmp_path, "--runs", "--limit", "0")[0]) == 5


def test_attempts_are_paged_and_a_cut_trial_gives_way_to_the_next(tmp_path: Path) -> None:
    record(tmp_path, "r", "a", "b", ended=False)
    record(tmp_path, "r", "a", "b", retry=1)
    lines, hint = listed(tmp_path, "r", "--limit", "1")
    assert (len(lines), hint) == (2, "not listed: 1 attempt; --offset 1 lists further ones, --limit 0 all\n")
    assert len(listed(tmp_path, "r")[0]) == 3
    assert len(listed(tmp_path, "r", "--all")[0]) == 5


def test_a_verdict_without_a_score_shows_none(tmp_path: Path) -> None:
    record(tmp_path, "r", "a")
    shown = CliRunner().invoke(build_app(), ["show", "a@0", "--store", str(tmp_path)]).stdout
    assert "verdict tests: fail - no\n" in shown


def test_one_of_a_thing_is_in_the_singular() -> None:
    assert (quantity(1, "chain"), quantity(2, "chain"), quantity(1200, "pass")) == (
        "1 chain",
        "2 chains",
        "1,200 passes",
    )
    assert (quantity(0, "addendum"), quantity(2, "trajectory")) == ("0 addenda", "2 trajectories")


def test_a_small_p_value_is_a_bound_and_never_zero() -> None:
    before = [TaskCount("a", None, f"t{n}", 0, 1, 0, 0) for n in range(30)]
    pair = compare_paired(before, [TaskCount("b", None, f"t{n}", 1, 0, 0, 0) for n in range(30)])
    row = compare_row(ComparedConfiguration("x", ()), ComparedConfiguration("y", ()), pair, pair.p_value)
    assert (row["p (McNemar)"], row["p (Holm)"]) == ("< 0.0001", "< 0.0001")
    (reason,) = decide_gate(pair, (), GateRule()).reasons
    assert reason == "30 gained, 0 lost, no protected task lost (one-sided p < 0.001)"
    assert format_p_value(0.03125, digits=3) == "0.031"


def test_pass_at_k_names_its_number_of_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [AttemptOutcome("t", "a", None, n, "pass") for n in range(2)] + [
        AttemptOutcome("u", "a", None, 0, "fail")
    ]
    print_summaries(summarise(outcomes, ks=(1, 2)))
    assert re.search(r"  1\.000.* \(1 of 2 tasks\)  1\.000.* \(1 of 2 tasks\)$", capsys.readouterr().out, re.MULTILINE)


def test_a_correlation_stays_in_its_range() -> None:
    assert estimate_clustering([[0], [0], [0], [0], [0, 1]]).icc == -1.0


def test_the_cost_is_not_known_before_a_trial_has_ended() -> None:
    tally = Tally()
    assert "$" not in progress_line(tally)
    table = render_progress(tally).renderables[0]
    assert list(table.columns[-2].cells) == ["-"]  # type: ignore[attr-defined]


def test_gates_of_synthesis_are_a_table() -> None:
    rows = _gate_rows((GateRow("time", "", {}), GateRow("kept", "passed all gates", {"feature": 2, "operator": 1})))
    assert rows == [{"gate": "kept", "demand": "passed all gates", "ended here": "3", "feature": "2", "operator": "1"}]


def test_reasons_of_synthesis_are_counted_in_the_order_of_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    ends = [("survived", "all 3 tests pass"), ("history", "a merge"), ("history", "a sweep"), ("history", "a sweep")]
    dropped = tuple(
        DroppedCandidate(f"c{number}", "commit", (f"commit {number}",), (), (), gate, reason)
        for number, (gate, reason) in enumerate(ends)
    )
    report = SynthesisReport("p 1", "blake3:0", "sdist", 0, (), 1, 2, 3, 4, (), {}, (), dropped=dropped)
    _print_reasons(report, "tasks")
    head, *rows, last = capsys.readouterr().out.strip().splitlines()
    assert head.split() == ["dropped", "gate", "reason", "first", "of", "them"]
    assert [" ".join(row.split()) for row in rows] == [
        "2 history a sweep commit 2",
        "1 history a merge commit 1",
        "1 survived all 3 tests pass commit 0",
    ]
    assert last == "tasks/manifest.json names every dropped candidate with its reason"


def test_change_outside_functions_is_placed_in_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    one = DroppedCandidate(
        "c", "commit", ("commit 40f72fefd95e",), ("shop/report.py::",), (), "survived", "no test fails"
    )
    _print_reasons(SynthesisReport("p 1", "blake3:0", "git", 0, (), 1, 2, 3, 4, (), {}, (), dropped=(one,)), "tasks")
    assert "commit 40f72fefd95e in shop/report.py\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (1, "--count 1 was reached with the kind operator; to get others, give only --kind feature"),
        (0, "no candidate of the kind operator or feature was kept: the table says at which gates they ended"),
    ],
)
def test_hint_at_other_kinds_fits_the_options(tasks: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    entry = ManifestEntry("a", "", "", "operator", (), (), (), (), (), (), "tests", {})
    report = SynthesisReport("p 1", "blake3:0", "git", 0, (), 1, 2, 3, 4, (), {}, (entry,) * tasks)
    _say_kinds(report, SynthesisConfig(source=".", out="o", count=1, kinds=("operator", "feature")))
    assert capsys.readouterr().err == f"{said}\n"


def test_progress_of_synthesis_tells_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([100.0, 103.0, 110.0, 120.0, 130.0, 140.0])
    monkeypatch.setattr("assay.cli.sandboxed_synthesis.time.monotonic", lambda: next(clock))
    lines = ProgressLines()
    for what, done in (("kept", 0), ("kept", 1), ("kept", 2), ("planned", 0), ("kept", 4), ("kept", 5)):
        lines(what, done, 5)
    assert capsys.readouterr().err.splitlines() == [
        "kept: 0 of 5",
        "kept: 2 of 5, about 15 s left",
        "planned: 0 of 5",
        "kept: 4 of 5, about 8 s left",
        "kept: 5 of 5",
    ]
