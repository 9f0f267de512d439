"""A required grade of separation decides which passes count, and which are selected."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from assay.api.summaries import required_separation
from assay.cli.app import build_app
from assay.cli.tables import summarise_runs
from assay.errors import UserError
from assay.learning.curation.config import CurateConfig
from assay.learning.curation.curate import curate
from assay.learning.rows import TrainingRow
from assay.learning.sampled import attempt_fields
from assay.learning.trainer.rollouts import meets_requirement
from assay.records import VerdictAdded
from assay.settings import Settings
from assay.store import RunStore
from tests.verdicts.made import chain, trajectory, verdict

GRADES = ("separate", "same-user", "unknown", "no-agent-code")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of one run with a pass of each grade, and a failure."""
    with RunStore.create(tmp_path, "r", {"config": {"require": "separate"}}) as store:
        for number, grade in enumerate(GRADES):
            store.append(f"t@{number}.0", chain(verdict(grade=grade), number=number))
        store.append("t@4.0", chain(verdict("fail"), number=4))
    return tmp_path


def test_summary_counts_passes_by_grade(root: Path) -> None:
    (group,) = summarise_runs(root, ["r"])
    assert (group.passed, group.doubtful) == (4, 0)
    assert list(group.separations) == ["no-agent-code", "separate", "same-user", "unknown"]


def test_summary_of_a_run_counts_what_it_requires(root: Path) -> None:
    (group,) = summarise_runs(root, ["r"], require=required_separation(root, "r"))
    assert (group.passed, group.doubtful, group.failed) == (2, 2, 1)
    assert group.separations == {"no-agent-code": 1, "separate": 1}


def test_stats_names_the_grades_and_refuses_others(root: Path) -> None:
    words = ["stats", "r", "--json", "--store", str(root), "--require"]
    done = CliRunner().invoke(build_app(), [*words, "separate"], catch_exceptions=False)
    assert json.loads(done.stdout)["groups"][0]["doubtful"] == 2
    refused = CliRunner().invoke(build_app(), [*words, "very-separate"])
    assert isinstance(refused.exception, UserError) or refused.exit_code == 2


def test_curation_decides_by_the_required_grade_first(root: Path, tmp_path: Path) -> None:
    config = CurateConfig(
        runs=("r",), out=str(tmp_path / "out"), where=("verdicts:doubtful=true",), require="separate", write=()
    )
    report = curate(config, Settings(cache=tmp_path / "cache", store=root))
    assert report.stages[0][:3] == ("separation", 5, 3)
    assert report.kept == 2


def test_training_row_below_the_required_grade_says_why(root: Path) -> None:
    plain = trajectory(verdict(grade="same-user"))
    assert attempt_fields(plain)["doubt"] is None
    assert attempt_fields(plain, "separate")["doubt"] == "its separation is same-user, and separate is required"
    assert attempt_fields(plain)["separation"] == "same-user"


@pytest.mark.parametrize(("outcome", "grade", "learned"), [("pass", "separate", True), ("pass", "unknown", False),
                                                           ("fail", "unknown", True)])  # fmt: skip
def test_training_leaves_out_passes_below_the_required_grade(outcome: str, grade: str, learned: bool) -> None:
    empty = np.array([], dtype=np.int32)
    named = dict.fromkeys(("run", "chain", "attempt", "group", "task", "agent", "branch"), "x")
    row = TrainingRow(
        token_ids=empty, roles=empty, loss_mask=empty, logprobs=empty, versions=empty, turns=(),
        outcome=outcome, separation=grade, **named,
    )  # fmt: skip
    assert meets_requirement(row, "separate") is learned


def test_later_agreement_counts_for_the_requirement(root: Path) -> None:
    again = verdict(check="reverify:tests", marks=["agree"], grade="separate")
    with RunStore.open(root, "r", write=True) as store:
        store.append("t@2.0", [VerdictAdded(again)])
    (group,) = summarise_runs(root, ["r"], require="separate")
    assert group.passed == 3
