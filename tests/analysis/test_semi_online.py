"""Scores of semi-online replays against values by hand."""

from __future__ import annotations

from typing import Any

import pytest

from assay.analysis.semi_online import ReplayedSteps, read_replayed_steps, score_replay

pytestmark = pytest.mark.quick
M, P = "matched", "patched"


@pytest.mark.parametrize(
    ("outcomes", "completed", "scores"),
    [
        ((M, M, M, M), True, [(1.0, True), (1.0, True), (1.0, True)]),
        ((M, P, M, P), True, [(0.25, False), (0.5, False), (0.5, True)]),
        ((P, M, P), False, [(0.0, False), (0.25, False), (0.25, False)]),
        ((), False, [(0.0, False)] * 3),
    ],
)
def test_one_replay_gives_the_scores_of_fewer_patches(
    outcomes: tuple[str, ...], completed: bool, scores: list[tuple[float, bool]]
) -> None:
    replayed = ReplayedSteps(completed, 4, outcomes, False, 2)
    found = [score_replay(replayed, patches) for patches in range(3)]
    assert [tuple(one) for one in found] == scores
    assert found[0].score == (scores[0][0] + scores[0][1]) / 2
    with pytest.raises(ValueError, match="0 to 2 patches"):
        score_replay(replayed, 3)


def test_who_goes_on_after_the_end_did_not_succeed() -> None:
    replayed = ReplayedSteps(False, 2, (M, M), True, 0)
    assert score_replay(replayed, 0) == (1.0, False)


FACTS: dict[str, Any] = {"completed": True, "steps": 2, "outcomes": [M, P], "overrun": False, "patches": 1, "more": 1}


@pytest.mark.parametrize(
    "change",
    [{"steps": 0}, {"steps": 1}, {"outcomes": ["won"]}, {"patches": -1}, {"completed": "yes"}, {"outcomes": None}],
)
def test_facts_of_something_else_are_not_read(change: dict[str, Any]) -> None:
    assert read_replayed_steps(FACTS) is not None
    assert read_replayed_steps({**FACTS, **change}) is None
