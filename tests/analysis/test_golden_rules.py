"""What the rules find in the recorded runs of others, finding by finding where it counts. The suite reads the runs of
which a finding is named here, `make campaign` all."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assay.analysis.interface import Finding
from assay.analysis.judge import RULES
from tests.sampling import WHOLE

COUNTING = {"reward-without-tests", "passed-fewer-than-counted", "patch-not-applied", "verdict-against-reward"}
UPSTREAM_FIX = "agentlens-bench/trajectories/astropy__astropy-13236"
FOLDERS = ("spark-skills", "swe-smith", UPSTREAM_FIX)


def audit() -> Any:
    return importlib.import_module("scripts.audit_sample")


@cache
def every(data: Path) -> tuple[tuple[Any, Finding], ...]:
    """All findings in recorded runs, with what names each; that their quotes stand there was seen to."""
    folders = ("",) if WHOLE else FOLDERS
    return tuple(pair for one in folders for subject in audit().subjects(data, one) for pair in audit().items(subject))


def flagged(data: Path, folder: str, rules: set[str]) -> Iterator[tuple[str, Finding]]:
    for item, one in every(data):
        run, attempt = item.where.split(" | ")
        if run.startswith(f"{folder}/") and one.rule in rules:
            yield f"{Path(run).relative_to(folder).parts[0]} {attempt}", one


def test_every_rule_is_of_a_family_that_people_read() -> None:
    named = [rule for rules in audit().FAMILIES.values() for rule in rules]
    assert sorted(named) == sorted(rule.name for rule in RULES)


@pytest.mark.long
def test_exactly_six_spark_passes_are_flagged_by_the_counting_rules(shared_data: Path) -> None:
    its = {name: (one.rule, one.severity) for name, one in flagged(shared_data, "spark-skills", COUNTING)}
    assert its == {
        "court-form-filling attempt 0": ("passed-fewer-than-counted", "major"),
        "energy-ac-optimal-power-flow attempt 0": ("passed-fewer-than-counted", "major"),
        "sales-pivot-analysis attempt 1": ("passed-fewer-than-counted", "major"),
        "glm-lake-mendota attempt 0": ("reward-without-tests", "note"),
        "python-scala-translation attempt 0": ("reward-without-tests", "critical"),
        "r2r-mpc-control attempt 3": ("reward-without-tests", "note"),
    }


@pytest.mark.long
def test_what_else_is_counted_differently_is_a_note_with_its_reason(shared_data: Path) -> None:
    its = dict(flagged(shared_data, "spark-skills", {"counts-disagree"}))
    assert {one.severity for one in its.values()} == {"note"}
    assert all("fold the cases of one test into one" in one.summary for one in its.values())
    assert {name.rsplit(" ", 2)[0] for name in its} == {
        "court-form-filling", "dialogue-parser", "earthquake-phase-association", "offer-letter-generator",
        "sales-pivot-analysis", "trend-anomaly-causal-inference", "xlsx-recover-data",
    }  # fmt: skip


def test_exactly_three_swe_smith_reports_are_flagged_by_the_counting_rules(shared_data: Path) -> None:
    its = [(one.rule, subject) for subject, one in flagged(shared_data, "swe-smith", COUNTING)]
    assert {rule for rule, _ in its} == {"patch-not-applied"}
    assert sorted(name.rsplit("_", 1)[1] for _, name in its) == ["53652", "7331", "8316"]


def test_the_run_that_read_the_upstream_fix_cites_its_steps(shared_data: Path) -> None:
    its = {
        name: one
        for name, one in flagged(shared_data, UPSTREAM_FIX, {"future-history"})
        if "sonnet-4.5-pass-24932719213" in name
    }
    (finding,) = its.values()
    assert (finding.severity, finding.reach) == ("critical", "obtained")
    assert finding.steps == (26, 27, 28, 29, 30, 34)
    assert "git show a04fb7c355" in finding.summary
    assert "astropy/table/table.py" in finding.summary


def test_published_items_are_found_again_and_a_campaign_writes_their_page_again(shared_data: Path) -> None:
    sample, items = audit(), [item for item, _ in every(shared_data)]
    kept = json.loads((sample.ROOT / "docs" / "audit.json").read_text())
    adversaries = [sample.Item(**one) for one in kept["adversaries"]]
    published = {name for name in kept["items"] if WHOLE or name.split(" @ ")[1].startswith(FOLDERS)}
    assert len(published) > 10
    assert published <= {item.id for item in (*items, *adversaries)}
    if WHOLE:
        counts = sample.Counter((item.rule, item.severity) for item in items)
        page = sample.page([*sample.drawn(items), *adversaries], counts, kept)
        assert page == (sample.ROOT / "docs" / "audit.md").read_text()
