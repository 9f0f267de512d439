"""The measures of AgentLens against its released annotations: exact where the inputs are published, else counted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from assay.analysis.coverage import cover
from assay.analysis.quality import Parts, label_free_score, process_quality
from assay.analysis.stages import stages_of
from assay.analysis.states import states_of
from assay.analysis.waste import waste_of
from assay.analysis.workflow import coherence, workflow_similarity
from tests.analysis.agentlens import STAGES, Run, annotations, references, runs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "process-measures.md"


@pytest.fixture(scope="session")
def folder(shared_data: Path) -> Path:
    return shared_data / "agentlens-bench"


@pytest.fixture(scope="session")
def rows(folder: Path) -> list[dict[str, str]]:
    return list(annotations(folder).values())


@pytest.fixture(scope="session")
def recorded(folder: Path) -> list[Run]:
    return runs(folder)


def parts(row: dict[str, str]) -> Parts:
    return Parts(
        coverage=float(row["coverage_percent"]) / 100,
        coherence=float(row["coherence_score"]),
        completeness=float(row["stage_completeness"]),
        workflow=float(row["workflow_similarity"]),
        f1=float(row["f1_score"]) / 100,
    )


def quality_score(of: Parts, *, passed: bool) -> float:
    """Returns the published points, 0 to 100: the label-free ones, and 10 for a pass."""
    return label_free_score(of) + 10.0 * passed


def tier(score: float, *, passed: bool) -> str:
    """Returns the published tier; failed attempts part at 40 here, not at the 47 of the documentation."""
    if not passed:
        return "partial_fail" if score >= 40 else "off_track"
    return "ideal" if score >= 70 else "solid" if score >= 47 else "lucky"


def test_every_published_score_and_tier_is_recomputed(rows: list[dict[str, str]]) -> None:
    assert len(rows) == 922
    for row in rows:
        passed = row["passed"] == "True"
        score = round(quality_score(parts(row), passed=passed))
        assert (score, tier(score, passed=passed)) == (int(row["quality_score"]), row["quality_tier"])


def test_lucky_passes_are_few_with_the_label_in_the_score_and_many_without(rows: list[dict[str, str]]) -> None:
    passing = [parts(row) for row in rows if row["passed"] == "True"]
    told = [quality_score(each, passed=True) for each in passing]
    untold = [label_free_score(each) for each in passing]
    lucky = [sum(tier(cut(score), passed=True) == "lucky" for score in scores)
             for scores in (told, untold) for cut in (round, float)]  # fmt: skip
    assert (len(passing), lucky) == (566, [35, 39, 135, 139])


@pytest.mark.long
def test_published_coherence_is_recomputed_from_the_published_stages(recorded: list[Run]) -> None:
    assert len(recorded) == 193
    for run in recorded:
        assert coherence(run.published) == pytest.approx(float(run.row["coherence_score"]))


def measured(recorded: list[Run], folder: Path) -> dict[str, str]:
    """The cells of the table of agreement."""
    pairs = [pair for run in recorded for pair in zip(stages_of(run.actions), run.stages, strict=True)]
    agree = np.mean([ours == theirs for ours, theirs in pairs])
    chance = sum(np.mean([p[0] == s for p in pairs]) * np.mean([p[1] == s for p in pairs]) for s in STAGES.values())
    cells = {"stages": f"{agree:.1%} of {len(pairs)}", "kappa": f"{(agree - chance) / (1 - chance):.3f}"}
    same = [abs(coherence(states_of(run.actions)) - float(run.row["coherence_score"])) for run in recorded]
    cells["coherence"] = f"{np.mean(np.array(same) < 1e-9):.1%}, mean difference {np.mean(same):.3f}"
    waste = [(waste_of(states_of(run.actions, run.stages)), run.row) for run in recorded]
    for ours, theirs in (("retry", "blind_retry"), ("regression", "regression_loop"), ("redundant", "redundant_step"),
                         ("cycle", "cyclic_pattern")):  # fmt: skip
        values = np.array([(w.count(ours), float(row[f"{theirs}_count"])) for w, row in waste])  # type: ignore[arg-type]
        cells[ours] = f"{np.mean(values[:, 0] == values[:, 1]):.1%}, r = {np.corrcoef(values.T)[0, 1]:.2f}"
    for name, referenced in (("quality without reference", False), ("quality with references", True)):
        area, count = _area(recorded, referenced=referenced)
        cells[name] = f"AUROC {area:.2f} of {count}"
    return cells | _against_references(recorded, folder)


def _against_references(recorded: list[Run], folder: Path) -> dict[str, str]:
    against: dict[str, list[tuple[float, float]]] = {}
    for task, paths in references(folder):
        for run in (each for each in recorded if each.row["task_id"] == task):
            states = states_of(run.actions, run.stages)
            best = cover(states, paths)
            path = [state.stage for state in paths[best.path]]
            for name, ours_value, column in (
                ("coverage", best.coverage * 100, "coverage_percent"),
                ("F1", best.f1 * 100, "f1_score"),
                ("completeness", best.completeness, "stage_completeness"),
                ("workflow", workflow_similarity(run.stages, path), "workflow_similarity"),
            ):
                against.setdefault(name, []).append((ours_value, float(run.row[column])))
    return {name: f"r = {np.corrcoef(np.array(held).T)[0, 1]:.2f}" for name, held in against.items()}


def _area(recorded: list[Run], *, referenced: bool) -> tuple[float, int]:
    """How often a passing run is scored above a failing one, and how many were scored so.

    References are the other passing runs at the same task.
    """
    scores: dict[bool, list[float]] = {True: [], False: []}
    for run in recorded:
        task = run.row["task_id"]
        others = [r.actions for r in recorded if r.passed and r is not run and r.row["task_id"] == task]
        quality = process_quality(run.actions, others if referenced else ())
        if quality is not None and quality.referenced == referenced:
            scores[run.passed].append(quality.score)
    area = np.mean([[(a > b) + (a == b) / 2 for b in scores[False]] for a in scores[True]])
    return float(area), len(scores[True]) + len(scores[False])


@pytest.mark.long
def test_the_page_says_how_far_ours_agrees_with_what_was_published(recorded: list[Run], folder: Path) -> None:
    page = PAGE.read_text()
    for name, cell in measured(recorded, folder).items():
        assert re.search(rf"^\| {re.escape(name)} \|.*\| {re.escape(cell)} \|", page, re.MULTILINE), (name, cell)
