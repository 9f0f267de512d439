"""How tiers follow what runs say, and what they are worth in a simulated library."""

from __future__ import annotations

import numpy as np
import pytest

from assay.learning.skills.records import SkillTier
from assay.learning.skills.routing import route_task
from assay.learning.skills.tiers import next_tier
from assay.learning.skills.usage import VersionUsage
from experiments.skill_tiers import LIBRARIES, compare

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("before", "low", "difference", "high", "after"),
    [
        ("new", 0.01, 0.1, 0.2, "proven"),
        ("new", -0.2, -0.1, -0.01, "demoted"),
        ("new", -0.1, 0.1, 0.3, "new"),
        ("proven", -0.2, -0.01, 0.1, "new"),
        ("proven", -0.1, 0.05, 0.2, "proven"),
        ("proven", -0.2, -0.1, -0.01, "demoted"),
        ("demoted", -0.1, 0.05, 0.2, "new"),
        ("demoted", -0.2, -0.05, 0.1, "demoted"),
    ],
)
def test_moves_follow_the_interval(
    before: SkillTier, low: float, difference: float, high: float, after: SkillTier
) -> None:
    assert next_tier(before, VersionUsage("v", 20, 20, 10, 20, difference, low, high)) == after


def test_too_few_tasks_move_nothing() -> None:
    assert next_tier("proven", VersionUsage("v", 9, 9, 0, 9, None, None, None)) == "proven"
    assert next_tier("new", None) == "new"


def test_a_proven_skill_stands_before_a_better_fitting_one() -> None:
    task = "sort the red parcels of the harbour warehouse by weight"
    fits = {"close": task, "proven": "red parcels of the harbour", "gone": task}
    routed = route_task(task, fits, tiers={"close": "new", "proven": "proven"})
    assert [(one.name, one.tier) for one in routed] == [("proven", "proven"), ("close", "new")]
    assert [one.name for one in route_task(task, fits, most=1)] == ["close"]


def test_tiers_gain_where_skills_differ() -> None:
    effects = LIBRARIES["two help (+20 points), three do nothing, three harm (-20)"]
    found = np.array([compare(effects, seed) for seed in range(8)]).mean(axis=0)
    tiers, words, none = found[:3]
    assert tiers > words + 0.04
    assert tiers > none
