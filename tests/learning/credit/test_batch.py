"""Columns from rows, and credit back onto them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.learning.credit import Columns, CreditConfig, assign_credit, build_batch
from assay.learning.credit.interface import BROKE, FAIL, NOT_JUDGED, PASS, UNKNOWN
from tests.learning.credit.rows import row

pytestmark = pytest.mark.quick


def test_credit_lands_on_the_sampled_tokens_of_each_turn() -> None:
    rows = [row("a"), row("b", 1, outcome="fail"), row("c", 1, outcome="unknown")]
    given = assign_credit(rows, CreditConfig("rloo"))
    assert [r.advantages.tolist() for r in given.rows if r.advantages is not None] == [
        [0, 1, 1, 0, 1, 1],
        [0, -1, -1],
        [0, 0, 0],
    ]
    # What nobody could judge is masked, not trained towards 0.
    assert [r.loss_mask.sum() for r in given.rows] == [4, 2, 0]
    assert given.credit.reasons == {"outcome not judged": 1}


def test_turns_of_an_attempt_in_several_rows_stand_in_the_order_of_steps() -> None:
    early = row("a", spans=[{"step": 0}, {"step": 3}])
    late = row("a", spans=[{"step": 0, "trained": False}, {"step": 1}], branch="1")
    held = build_batch([row("b", 1), early, late])
    assert held.attempts == (("r", "b", ""), ("r", "a", ""))
    assert held.positions == ((0, 0), (1, 0), (2, 1), (1, 1))
    assert held.batch.attempt.tolist() == [0, 1, 1, 1]


def test_columns_say_what_rows_say() -> None:
    spans = [
        {"step": 0, "state": "s0", "weight_version": "step-12", "progress": 0.5, "reward": 0.25},
        {"step": 1, "state": "s1", "weight_version": "blake3:77", "error": True},
    ]
    held = build_batch([row("a", spans=spans, score=0.5, final_state="s0"), row("b")], Columns("score", True)).batch
    assert held.reward.tolist() == [0.5, 1.0]
    assert held.state.tolist() == [0, 1, -1, -1]
    assert held.version.tolist() == [12, -1, -1, -1]
    assert held.turn_reward.tolist() == [0.25, 0, 0, 0]
    assert held.error.tolist() == [False, True, False, False]
    assert held.logprob.tolist() == [-0.5] * 4
    assert held.parent.tolist() == [-1, -1]
    assert build_batch([row("a"), row("b", forked_from="blake3:5")]).batch.forked.tolist() == [False, True]
    np.testing.assert_array_equal(held.progress, [0.5, np.nan, np.nan, np.nan])
    assert held.final_state is not None
    assert held.final_state.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"outcome": "pass", "doubt": "integrity failed", "integrity": "fail"}, PASS),
        ({"outcome": "pass", "doubt": "flaky when judged again"}, UNKNOWN),
        ({"outcome": None}, NOT_JUDGED),
        ({"outcome": "fail", "broke": "environment"}, BROKE),
        ({"outcome": "fail", "broke": "agent"}, FAIL),
        ({"outcome": None, "broke": "agent"}, BROKE),
    ],
)
def test_an_outcome_that_does_not_hold_is_none(fields: dict[str, Any], outcome: int) -> None:
    assert build_batch([row("a", **fields)]).batch.outcome.tolist() == [outcome]


def test_rows_of_one_attempt_that_disagree_are_refused() -> None:
    with pytest.raises(ValueError, match="'t#a' disagree: pass and fail"):
        build_batch([row("a"), row("a", outcome="fail")])


def test_no_rows_give_no_credit() -> None:
    assert assign_credit([]).rows == []


def test_sub_agents_are_attempts_of_their_own_where_asked() -> None:
    rows = [
        row("a", 1),
        row("a", 1, branch="1", parent="0", cause="sub_agent"),
        row("a", 1, branch="2", parent="1", cause="sub_agent"),
        row("a", 1, branch="3", parent="1", cause="compaction"),
        row("b", 1, outcome="fail"),
    ]
    held = build_batch(rows, Columns(sub_agents=True))
    assert [sub for _, _, sub in held.attempts] == ["", "1", "2", ""]
    assert held.batch.parent.tolist() == [-1, 0, 1, -1]
    assert held.batch.attempt.tolist() == [0, 1, 1, 2, 3]
    assert build_batch(rows).batch.attempt.tolist() == [0, 0, 0, 0, 1]
    assert assign_credit(rows, CreditConfig("m-grpo")).batch.parent.tolist() == [-1, 0, 1, -1]


def test_each_actor_of_a_team_is_an_attempt_compared_with_the_same_actor() -> None:
    rows = [
        row("a", 1, actor="one"),
        row("a", 1, actor="two", branch="1"),
        row("b", 1, actor="one", outcome="fail"),
        row("b", 1, actor="two", branch="1", outcome="fail"),
    ]
    held = build_batch(rows, Columns(sub_agents=True))
    assert held.attempts == (("r", "a", "@one"), ("r", "a", "@two"), ("r", "b", "@one"), ("r", "b", "@two"))
    assert held.batch.parent.tolist() == [-1] * 4
    assert held.batch.group.tolist() == [0, 1, 0, 1]
    assert len(build_batch(rows).attempts) == 2


def test_actors_that_were_handed_to_are_sub_agents_of_the_first() -> None:
    rows = [
        row("a", 1, actor="manager"),
        row("a", 1, actor="worker", branch="1", cause="sub_agent"),
        row("a", 1, actor="worker", branch="2", cause="sub_agent"),
        row("b", 1, actor="manager", outcome="fail"),
        row("b", 1, actor="worker", branch="1", cause="sub_agent", outcome="fail"),
    ]
    held = build_batch(rows, Columns(sub_agents=True))
    assert [name for _, _, name in held.attempts] == ["@manager", "1", "2", "@manager", "1"]
    assert held.batch.parent.tolist() == [-1, 0, 0, -1, 3]
    given = assign_credit(rows, CreditConfig("m-grpo"))
    shares = [float(one.advantages[one.loss_mask][0]) for one in given.rows if one.advantages is not None]
    assert shares[0] == -shares[3] > 0
    assert shares[1] == shares[2] > 0 > shares[4]
