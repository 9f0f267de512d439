"""Exporting: what a format cannot hold is listed, and a pass that something speaks against is no plain pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import UserError
from assay.records import AttemptEnded, AttemptStarted, Noted, Observation, Step, StepAdded, Verdict, VerdictAdded
from assay.rollout.exchange.config import ExportConfig, ImportConfig
from assay.rollout.exchange.exporting import ExportReport, export_run, sidecar_of
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings
from assay.store import RunStore, annotate, seal


def start(attempt: str, number: int = 0, retry: int = 0) -> AttemptStarted:
    return AttemptStarted("r", attempt, "task-1", "", "agent", None, 0, number, retry)


def step(exit_code: int = 3) -> StepAdded:
    return StepAdded(Step(0, "agent", "look", observations=(Observation("seen", exit_code=exit_code),)))


PASS = VerdictAdded(Verdict("tests", "outcome", "pass", 1.0, "all passed"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with RunStore.create(root, "r", {}) as made:
        made.append("a.0", [start("a"), step(), Noted("retried", {}), AttemptEnded(broke="provider")])
        made.append("a.1", [start("a", retry=1), step(), PASS, AttemptEnded("done")])
        made.append("b.0", [start("b", 1), step(), PASS, AttemptEnded("done")])
    return root


def exported(store: Path, to: str, out: Path, *attempts: str, **how: Any) -> tuple[ExportReport, dict[str, Any]]:
    settings = Settings(cache=store / "cache", store=store)
    report = export_run("r", ExportConfig(to, str(out), attempts, **how), settings)
    return report, json.loads(sidecar_of(out).read_bytes())


def test_the_last_try_of_each_attempt_is_written_and_losses_are_listed(store: Path, tmp_path: Path) -> None:
    report, sidecar = exported(store, "chat", tmp_path / "rows.jsonl")
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == report.written == 2
    assert sidecar["totals"]["steps.observations.exit_code"] == 2
    assert [loss["why"] for loss in sidecar["losses"] if loss["field"] == "trajectory"] == [
        "try 0 broke and was made again; the last one is here"
    ]
    assert [(a["attempt"], a["outcome"], a["integrity"]) for a in sidecar["attempts"]] == [
        ("a", "pass", None), ("b", "pass", None)
    ]  # fmt: skip
    assert report.unaudited == 2


def test_pass_below_the_required_separation_is_left_out_with_the_reason(store: Path, tmp_path: Path) -> None:
    with RunStore.open(store, "r", write=True) as made:
        graded = VerdictAdded(msgspec.structs.replace(PASS.verdict, separation="separate"))
        made.append("c.0", [start("c", 2), step(), graded, AttemptEnded("done")])
    out = tmp_path / "rows.jsonl"
    config = ExportConfig("chat", str(out), require="separate")
    report = export_run("r", config, Settings(cache=store / "cache", store=store))
    assert report.written == len(out.read_text().splitlines()) == 1
    sidecar = json.loads(sidecar_of(out).read_bytes())
    assert [(one["attempt"], one["outcome_class"]) for one in sidecar["attempts"]] == [
        ("a", "doubt"), ("b", "doubt"), ("c", "pass")
    ]  # fmt: skip
    said = [loss["why"] for loss in sidecar["losses"] if loss["attempt"] == "b" and loss["field"] == "trajectory"]
    assert said == ["left out: it passed, and its separation is unknown, and separate is required"]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "finding",
    [
        Verdict("audit", "integrity", "fail", None, "it read the tests"),
        Verdict("reverify:tests", "outcome", "fail", 0.0, "judged again", marks=("disagree",)),
    ],
    ids=["integrity", "reverified"],
)
def test_a_pass_that_something_speaks_against_is_marked(
    finding: Verdict, sealed: bool, store: Path, tmp_path: Path
) -> None:
    if sealed:
        seal(store, "r")
    annotate(store, "r", "b.0", [VerdictAdded(finding)])
    report, sidecar = exported(store, "chat", tmp_path / "rows.jsonl", failed_integrity=True)
    plain, doubted = (json.loads(line)["metadata"] for line in (tmp_path / "rows.jsonl").read_text().splitlines())
    assert report.doubted == ("b",)
    assert plain["outcome"] == doubted["claimed_outcome"] == "pass"
    assert "outcome" not in doubted
    assert [a.get("doubt") for a in sidecar["attempts"]] == [None, doubted["doubt"]]


def test_atif_says_in_its_notes_what_speaks_against_a_trajectory(store: Path, tmp_path: Path) -> None:
    annotate(store, "r", "b.0", [VerdictAdded(Verdict("audit", "integrity", "fail", None, "it read the tests"))])
    exported(store, "atif", tmp_path / "out", failed_integrity=True)
    notes = {p.stem: json.loads(p.read_bytes()).get("notes") for p in (tmp_path / "out").iterdir()}
    assert notes["a"] is None
    assert "its integrity is fail" in notes["b"]


def test_failed_integrity_is_left_out_unless_it_is_asked_for(store: Path, tmp_path: Path) -> None:
    annotate(store, "r", "b.0", [VerdictAdded(Verdict("audit", "integrity", "fail", None, "it read the tests"))])
    report, sidecar = exported(store, "atif", tmp_path / "out")
    assert [p.stem for p in (tmp_path / "out").iterdir()] == ["a"]
    assert report.written == 1
    assert "its integrity is fail" in next(loss["why"] for loss in sidecar["losses"] if loss["attempt"] == "b")


@pytest.mark.parametrize("to", ["atif", "harbor"])
def test_what_is_exported_and_imported_again_has_the_same_outcome(to: str, store: Path, tmp_path: Path) -> None:
    again = VerdictAdded(Verdict("reverify:tests", "outcome", "fail", 0.0, "judged again", marks=("disagree",)))
    annotate(store, "r", "a.1", [again])
    exported(store, to, tmp_path / "out", "a")
    settings = Settings(cache=tmp_path, store=tmp_path / "other")
    report = import_paths(ImportConfig((str(tmp_path / "out"),)), settings)
    with RunStore.open(tmp_path / "other", report.run) as opened:
        (row,) = opened.attempts()
    assert (report.unreadable_total, row.task, row.agent) == (0, "task-1", "agent")
    assert row.outcome == ("pass" if to == "atif" else "unknown")


def test_an_export_refuses_what_it_cannot_do_before_it_writes(store: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(UserError, match="there exists"):
        exported(store, "chat", tmp_path / "there")
    with pytest.raises(UserError, match=r"swe-smith is read, not written; these are written: atif, chat"):
        exported(store, "swe-smith", tmp_path / "out")
    with pytest.raises(UserError, match="has no attempt nobody"):
        exported(store, "chat", tmp_path / "out", "nobody")
    with pytest.raises(UserError, match="holds one trajectory"):
        exported(store, "atif", tmp_path / "one.json")
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "store") == ["there"]
