"""The table of a run says what the store says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.records import Noted
from assay.store import RunStore, annotate, current_verdicts_by_chain, seal
from assay.viewer.card import summarize_run
from assay.viewer.rows import list_rows
from assay.viewer.runs import run_line
from assay.viewer.views import make_view
from tests.viewer.made_runs import HOSTILE, given, small_run

pytestmark = pytest.mark.quick


def texts(found: dict[str, Any], name: str) -> dict[str, str | None]:
    """Chain to the text of a column."""
    codes, known = found["columns"][name], found["names"][name]
    return {c: None if n < 0 else known[n] for c, n in zip(found["columns"]["chain"], codes, strict=True)}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    small_run(tmp_path)
    return tmp_path


def test_outcomes_say_what_speaks_against_a_pass(store: Path) -> None:
    found = texts(list_rows(store, "r"), "outcome")
    assert [found[f"pkg/t@{n}.0"] for n in (0, 1, 3, 4)] == ["pass", "doubt", "error", "open"]
    assert found[f"pkg/{HOSTILE}@2.0"] == "fail"


def test_every_kind_of_verdict_has_its_column(store: Path) -> None:
    found = list_rows(store, "r")
    assert texts(found, "integrity")["pkg/t@1.0"] == "fail"
    assert texts(found, "process")["pkg/t@0.0"] == "fail"
    assert texts(found, "safety")[f"pkg/{HOSTILE}@2.0"] == "pass"


def test_a_try_that_was_tried_again_decides_nothing(store: Path) -> None:
    columns = list_rows(store, "r")["columns"]
    final = dict(zip(columns["chain"], columns["final"], strict=True))
    assert final["pkg/t@3.0"] == 0
    assert final["pkg/t@4.0"] == final["pkg/t@0.0"] == 1


def test_a_sealed_run_gives_the_same_rows(store: Path) -> None:
    with_end(store)
    before = list_rows(store, "r")
    seal(store, "r")
    after = list_rows(store, "r")
    assert after["seq"] is None
    assert {**after, "seq": 0} == {**before, "seq": 0}


def test_what_is_learnt_after_sealing_is_in_the_rows(store: Path) -> None:
    with_end(store)
    seal(store, "r")
    annotate(store, "r", "pkg/t@0.0", [given("integrity", "fail")])
    assert texts(list_rows(store, "r"), "outcome")["pkg/t@0.0"] == "doubt"


def with_end(store: Path) -> None:
    with RunStore.open(store, "r", write=True) as run:
        run.append("pkg/t@4.0", [Noted("interrupted")])


def test_the_list_of_runs_counts_what_the_table_shows(store: Path) -> None:
    line = run_line(store, "r")
    assert (line.attempts, line.open, line.counts) == (3, 1, {"pass": 1, "doubt": 1, "fail": 1})


def test_a_run_that_cannot_be_read_is_listed_with_why(store: Path) -> None:
    (store / "runs" / "bad").mkdir()
    (store / "runs" / "bad" / "run.sqlite").write_bytes(b"no database")
    made = make_view(store, "runs")
    assert made is not None
    lines = {one["run"]: one for one in json.loads(made)["runs"]}
    assert "restore it from a copy" in lines["bad"]["error"]
    assert lines["r"]["attempts"] == 3


def test_the_card_counts_doubtful_passes_apart(store: Path) -> None:
    found = summarize_run(store, "r")
    (group,) = found["groups"]
    assert (group.attempts, group.passed, group.doubtful, group.failed) == (3, 1, 1, 1)
    assert '"asked": "for this"' in found["manifest"]
    assert ("retried", "1") in found["facts"]


@pytest.mark.parametrize("form", ["live", "sealed"])
def test_a_few_chains_stand_as_among_all(store: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_end(store)
    if form == "sealed":
        seal(store, "r")
    with RunStore.open(store, "r") as run:
        rows = run.attempts()
        alone = {row.chain: stand for row in rows for stand in current_verdicts_by_chain(run, [row]).values()}
        monkeypatch.setattr(sys.modules["assay.store.annotate"], "FEW", 0)
        assert current_verdicts_by_chain(run, rows) == alone
