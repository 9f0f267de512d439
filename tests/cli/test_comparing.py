"""`assay compare`, `gate`, `power` and the forms of tables, on a small store."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.cli.table_formats import format_rows
from assay.errors import UserError
from assay.records import AttemptEnded, AttemptStarted, Noted, Step, StepAdded, ToolCall, Verdict, VerdictAdded
from assay.store import RunStore

pytestmark = pytest.mark.newest
CELL = st.text(st.characters(codec="utf-8"), max_size=20)


def record(
    root: Path,
    run: str,
    passed: dict[str, tuple[bool, ...]],
    agent: str = "loop",
    config: dict[str, Any] | None = None,
) -> None:
    with RunStore.create(root, run, {}) as store:
        for task, outcomes in passed.items():
            for number, good in enumerate(outcomes):
                status = "pass" if good else "fail"
                started = AttemptStarted(
                    run, f"{task}@{number}", task, "d", agent, None, 0, number, config=config or {}, at=1.0
                )
                verdict = Verdict("tests", "outcome", status, float(good), "")  # type: ignore[arg-type]
                store.append(f"{task}@{number}.0", [started, VerdictAdded(verdict), AttemptEnded("done", at=2.0)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    record(tmp_path, "base", {f"t{n}": (n < 2, n < 2) for n in range(10)})
    record(tmp_path, "better", {f"t{n}": (n < 9, n < 9) for n in range(10)})
    record(tmp_path, "worse", {f"t{n}": (n == 5, False) for n in range(10)})
    return tmp_path


def assay(store: Path, *words: str) -> Result:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


def test_a_comparison_counts_tasks_that_flipped(store: Path) -> None:
    told = json.loads(assay(store, "compare", "base", "better", "worse", "--json").stdout)
    first, second = (one["comparison"] for one in told["comparisons"])
    assert [flip["task"] for flip in first["gained"]] == [f"t{n}" for n in range(2, 9)]
    assert (first["p_value"], told["comparisons"][0]["p_holm"]) == (0.015625, 0.03125)
    assert [len(second["gained"]), len(second["lost"])] == [1, 2]


def test_a_gate_says_no_with_an_exit_code(store: Path) -> None:
    assert assay(store, "gate", "base", "better").exit_code == 0
    refused = assay(store, "gate", "better", "worse")
    assert refused.exit_code == 1
    assert "worse is refused against better\n  0 gained and 9 lost: that is not a gain" in refused.stdout


def test_a_protected_task_is_read_from_a_file(store: Path, tmp_path: Path) -> None:
    names = tmp_path / "protected.txt"
    names.write_text("# must pass\nt0\nt9\n")
    assert assay(store, "gate", "base", "better", "--protected", str(names)).exit_code == 0
    names.write_text("t77\n")
    assert "t77 was not judged in both" in assay(store, "gate", "base", "better", "--protected", str(names)).stdout
    assert assay(store, "gate", "base", "better", "--protected", str(tmp_path / "none")).exit_code == 2


def test_power_starts_from_a_run(store: Path) -> None:
    found = json.loads(assay(store, "power", "better", "--difference", "0.3", "--json").stdout)
    assert (found["design"]["tasks"], found["design"]["attempts"]) == (10, 2)
    assert found["tasks_needed"] > 10
    assert assay(store, "power").exit_code == 2
    assert assay(store, "power", "--tasks", "5", "--rate", "2").exit_code == 2


def test_a_run_of_several_agents_wants_one_named(store: Path) -> None:
    record(store, "two", {"t1": (True,)})
    with RunStore.open(store, "two", write=True) as open_store:
        started = AttemptStarted("two", "t1@x", "t1", "d", "other", None, 0, 0, at=1.0)
        open_store.append("t1@x.0", [started, AttemptEnded("done", at=2.0)])
    several = assay(store, "compare", "two", "base")
    assert several.exit_code == 2
    assert "two:loop:-, two:other:-" in several.stderr
    assert assay(store, "compare", "two:loop", "base").exit_code == 0


@pytest.mark.parametrize("form", ["markdown", "csv", "latex"])
def test_every_table_has_every_form(store: Path, form: str) -> None:
    for words in (["stats", "base"], ["compare", "base", "better"], ["power", "base"], ["gate", "base", "better"]):
        result = assay(store, *words, "--format", form)
        assert result.exit_code == 0
        assert "base" in result.stdout or "loop" in result.stdout or "0." in result.stdout


def test_an_unknown_form_is_named(store: Path) -> None:
    assert "one of text, markdown, json, csv, latex" in assay(store, "stats", "base", "--format", "html").stderr


@given(st.lists(st.fixed_dictionaries({"a": CELL, "b": CELL}), min_size=1, max_size=5))
def test_tables_keep_their_shape_whatever_cells_hold(rows: list[dict[str, str]]) -> None:
    read = list(csv.reader(io.StringIO(format_rows(rows, "csv"))))
    assert [len(line) for line in read] == [2] * (len(rows) + 1)
    assert not any(cell.startswith(("=", "@", "\t")) for line in read for cell in line)
    assert format_rows(rows, "markdown").count("\n") == len(rows) + 2
    assert format_rows(rows, "latex").count("\n") == len(rows) + 6


def test_markup_in_a_cell_is_text() -> None:
    cell = {"a": "<script>x</script> [link](http://x) | 50% & $1 \\input{/etc/passwd}"}
    assert "\\<script\\>x" in format_rows([cell], "markdown")
    assert r"\textbackslash{}input\{/etc/passwd\}" in format_rows([cell], "latex")
    with pytest.raises(UserError, match="not as 'html'"):
        format_rows([cell], "html")


@pytest.mark.parametrize("tolerance", ["nan", "inf", "-0.1", "1.5"])
def test_no_tolerance_lets_every_protected_task_be_lost(store: Path, tmp_path: Path, tolerance: str) -> None:
    (tmp_path / "protected.txt").write_text("t0\n")
    words = ("--protected", str(tmp_path / "protected.txt"), "--not-worse", "--tolerance", tolerance)
    assert assay(store, "gate", "base", "worse", *words).exit_code == 2


def test_candidate_that_breaks_what_it_would_lose_is_not_accepted(store: Path) -> None:
    with RunStore.create(store, "breaks", {}) as run:
        for number in range(10):
            task, is_gain = f"t{number}", 2 <= number < 8
            started = AttemptStarted("breaks", task, task, "d", "loop", None, 0, 0, config={}, at=1.0)
            verdict = Verdict("tests", "outcome", "pass", 1.0, "")
            end = (
                [VerdictAdded(verdict), AttemptEnded("done", at=2.0)]
                if is_gain
                else [AttemptEnded(broke="provider", error="it was not me", at=2.0)]
            )
            run.append(f"{task}.0", [started, *end])
    refused = assay(store, "gate", "base", "breaks")
    assert refused.exit_code == 1
    assert "6 gained and 2 lost" in refused.stdout
    assert "breaks: 4 attempts without a verdict" in " ".join(refused.stderr.split())


def test_candidate_that_was_drawn_again_is_not_accepted_for_it(store: Path) -> None:
    with RunStore.create(store, "again", {}) as run:
        for number in range(10):
            task = f"t{number}"
            for retry in range(2):
                call = ToolCall("c", "do", str(retry), {})
                started = AttemptStarted("again", task, task, "d", "loop", None, 0, 0, retry, config={}, at=1.0)
                end: list[Any] = [
                    VerdictAdded(Verdict("tests", "outcome", "pass", 1.0, "")),
                    AttemptEnded("done", at=2.0),
                ]
                broken: list[Any] = [Noted("retried", {}), AttemptEnded(broke="provider", at=2.0)]
                step = StepAdded(Step(0, "agent", None, None, (call,)))
                run.append(f"{task}.{retry}", [started, step, *(end if retry else broken)])
    assert assay(store, "gate", "base", "again").exit_code == 1


def test_a_gate_decides_on_no_semi_online_replay(store: Path) -> None:
    passed: dict[str, tuple[bool, ...]] = {f"t{n}": (True, True) for n in range(10)}
    record(store, "replayed", passed, "loop", {"semi_online": {"run": "live"}})
    record(store, "named-so", passed, "semi-online+loop")
    refused = assay(store, "gate", "base", "replayed")
    assert (refused.exit_code, "a gate compares live runs" in " ".join(refused.stderr.split())) == (2, True)
    assert assay(store, "gate", "base", "named-so").exit_code == 0


def test_losses_that_chance_explains_one_by_one_do_not_add_up_along_a_line(tmp_path: Path) -> None:
    for number in range(5):
        record(tmp_path, f"r{number}", {f"t{n}": (n >= 2 * number,) for n in range(40)})
    words = ("--not-worse", "--line", "main")
    accepted = [assay(tmp_path, "gate", f"r{n}", f"r{n + 1}", *words).exit_code for n in range(2)]
    assert accepted == [0, 0]
    third = assay(tmp_path, "gate", "r2", "r3", *words)
    assert third.exit_code == 1
    told = "against r0, the last release accepted as better: 6 lost and 0 gained: more than chance explains"
    assert told in " ".join(third.stdout.split())
    assert assay(tmp_path, "gate", "r2", "r3", "--not-worse").exit_code == 0
    record(tmp_path, "mended", {f"t{n}": (True,) for n in range(40)})
    assert assay(tmp_path, "gate", "r2", "mended", *words).exit_code == 0


def test_a_line_of_releases_compares_each_candidate_with_the_present_release_once(store: Path) -> None:
    assert assay(store, "releases").stdout.startswith("no line of releases")
    assert assay(store, "gate", "base", "better", "--line", "main").exit_code == 0
    behind = assay(store, "gate", "base", "worse", "--line", "main")
    assert behind.exit_code == 2
    assert "the release of line 'main' is 'better', not 'base'" in " ".join(behind.stderr.split())
    refused = assay(store, "gate", "better", "worse", "--line", "main")
    assert refused.exit_code == 1
    assert "decision 2 on these tasks" in refused.stderr
    again = assay(store, "gate", "better", "worse", "--line", "main")
    assert (again.exit_code, "a candidate is decided once" in " ".join(again.stderr.split())) == (2, True)
    (line,) = json.loads(assay(store, "releases", "main", "--json").stdout)
    assert line["release"] == "better"
    assert [(one["candidate"], one["base"], one["accepted"]) for one in line["entries"]] == [
        ("better", "base", True),
        ("worse", "better", False),
    ]
    assert line["entries"][1]["lost"]
    alias = assay(store, "gate", "better", "worse:loop:-", "--not-worse", "--line", "main")
    assert (alias.exit_code, "a candidate is decided once" in " ".join(alias.stderr.split())) == (2, True)
    assert (line["entries"][0]["rule"]["want"], line["entries"][0]["rule"]["alpha"]) == ("better", 0.05)
    assert assay(store, "releases", "other").exit_code == 2
    assert assay(store, "gate", "better", "worse", "--line", "../x").exit_code == 2
