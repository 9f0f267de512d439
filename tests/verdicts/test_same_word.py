"""Every surface calls the same attempt by the same word."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import assay
from assay.analysis.card import card_of
from assay.analysis.columns import measure_attempts
from assay.cli.app import build_app
from assay.learning.sampled import attempt_fields
from assay.records import Trajectory, Verdict, VerdictAdded
from assay.rollout.exchange.exporting import merge_later_events, status_of
from assay.store import RunStore, annotate, final_rows, later_events, load_current_verdicts, seal
from assay.verdicts import assess
from assay.viewer.rows import list_rows
from tests.verdicts.made import chain, verdict

APP = build_app()
STATUSES = st.sampled_from(["pass", "pass", "pass", "fail", "unknown", "error"])
IMPORTED = st.sampled_from([(), (), ("imported",)])
GRADES = st.sampled_from(["no-agent-code", "separate", "same-user", "unknown"])
OUTCOMES = st.builds(verdict, STATUSES, st.just("outcome"), st.sampled_from(["a", "b"]), IMPORTED, GRADES)
OTHERS = st.builds(
    verdict, STATUSES, st.sampled_from(["integrity", "safety", "process"]), st.sampled_from(["i", "j"]), IMPORTED
)
AGAIN = st.builds(
    lambda check, mark, imported, grade: verdict("pass", "outcome", f"reverify:{check}", (mark, *imported), grade),
    st.sampled_from(["a", "b"]), st.sampled_from(["agree", "agree", "disagree", "flaky", "cannot"]), IMPORTED, GRADES,
)  # fmt: skip


def listed(root: Path) -> tuple[str, str, str]:
    done = CliRunner().invoke(APP, ["ls", "r", "--all", "--json", "--store", str(root)], catch_exceptions=False)
    found = json.loads(done.stdout)
    row, headline, word = found["attempts"][0], *found["headlines"].values(), *found["outcome_classes"].values()
    assert headline.startswith("pass" if word == "doubt" else word)
    return word, row["separation"], headline


def trained_word(trajectory: Trajectory) -> str:
    row: dict[str, Any] = attempt_fields(trajectory)
    if row["outcome"] is None:
        return "error" if row["broke"] else "unknown"
    return "doubt" if row["doubt"] is not None else row["outcome"]


def stats_word(root: Path) -> str:
    with RunStore.open(root, "r") as store:
        outcome = measure_attempts(final_rows(store.attempts()), load_current_verdicts(root, "r"))[0].outcome
    return "doubt" if outcome.doubtful else outcome.status


def fill(root: Path, first: list[Verdict], later: list[Verdict], end: str, broke: str | None, *, sealed: bool) -> None:
    with RunStore.create(root, "r", {"what": "a test"}) as store:
        store.append("t@0.0", chain(*first, end=end, broke=broke))
    if sealed:
        seal(root, "r")
    if later and end != "open":
        annotate(root, "r", "t@0.0", [VerdictAdded(v) for v in later])


def surfaces(root: Path) -> dict[str, tuple[str, str, str]]:
    """Word, grade of separation and headline of the only attempt, by surface."""
    with RunStore.open(root, "r") as store:
        found = merge_later_events(store, "t@0.0", later_events(root, "r").get("t@0.0", ()))
        row = store.attempts()[0]
    table = list_rows(root, "r")
    viewed = {name: texts[table["columns"][name][0]] for name, texts in table["names"].items() if texts}
    card, stands, trust = (
        card_of(found, (), ()),
        status_of(found),
        assess(load_current_verdicts(root, "r")["t@0.0"], row),
    )
    words = {"list": listed(root), "export": (stands.outcome_class, stands.separation, trust.headline)}
    words["card"] = (card.outcome_class, card.separation, card.headline)
    words["viewer"] = (viewed["outcome"], viewed["separation"], viewed["headline"])
    if row.final:
        words["stats"] = (stats_word(root), trust.separation, trust.headline)
        words["training"] = (trained_word(found), trust.separation, trust.headline)
    return words


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(
    first=st.lists(st.one_of(OUTCOMES, OTHERS), max_size=3),
    later=st.lists(st.one_of(OTHERS, AGAIN), max_size=3),
    end=st.sampled_from(["ended", "ended", "ended", "cut", "open"]),
    broke=st.sampled_from([None, None, "environment", "agent"]),
    sealed=st.booleans(),
)
def test_every_surface_calls_an_attempt_by_the_same_word(
    first: list[Verdict], later: list[Verdict], end: str, broke: str | None, sealed: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fill(root, first, later, end, broke, sealed=sealed and end == "ended")
        assert len(set(surfaces(root).values())) == 1, surfaces(root)


def test_surfaces_agree_on_a_pass_that_an_audit_doubted(tmp_path: Path) -> None:
    fill(tmp_path, [verdict()], [verdict("fail", "integrity", "i")], "ended", None, sealed=True)
    assert listed(tmp_path) == ("doubt", "unknown", "pass (integrity failed)")
    assert stats_word(tmp_path) == "doubt"
    (attempt,) = assay.open(tmp_path).run("r").attempts
    assert (attempt.outcome, attempt.integrity, attempt.headline) == ("doubt", "fail", "pass (integrity failed)")


@pytest.mark.parametrize("sealed", [False, True])
def test_reverification_of_an_old_run_gives_it_a_grade(tmp_path: Path, sealed: bool) -> None:
    again = verdict(check="reverify:tests", marks=["agree"], grade="separate")
    fill(tmp_path, [verdict()], [again], "ended", None, sealed=sealed)
    assert listed(tmp_path) == ("pass", "separate", "pass")
