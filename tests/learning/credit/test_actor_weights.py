"""Weights of a team's actors by rank consistency, against values computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import kendalltau

from assay.learning.credit import CreditConfig, assign_credit
from assay.learning.credit.actor_weights import (
    ActorWeight,
    describe_weights,
    kendall_tau_b,
    rank_consistency_weights,
)
from assay.learning.turn_facts import set_turn_rewards
from tests.learning.credit.rows import row

pytestmark = pytest.mark.quick
OUTCOME = [1.0, 1.0, 0.0, 0.0]
LOCAL = {"good": [0.9, 0.8, 0.2, 0.1], "bad": [0.1, 0.2, 0.8, 0.9], "same": [0.5, 0.5, 0.5, 0.5]}
TAU = 4 / math.sqrt(4 * 6)
"""Four concordant pairs; of six pairs two are tied in the outcome, and none in the local reward."""


def test_tau_b_by_hand() -> None:
    assert kendall_tau_b(LOCAL["good"], OUTCOME) == pytest.approx(TAU)
    assert kendall_tau_b(LOCAL["bad"], OUTCOME) == pytest.approx(-TAU)
    assert kendall_tau_b([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert kendall_tau_b([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(2 * 3))
    assert kendall_tau_b(LOCAL["same"], OUTCOME) is None
    assert kendall_tau_b([1.0], [1.0]) is None
    assert kendall_tau_b([], []) is None
    with pytest.raises(ValueError, match="all finite"):
        kendall_tau_b([1.0, math.nan], [0.0, 1.0])


def test_weights_by_hand_are_one_on_average() -> None:
    found = rank_consistency_weights(LOCAL, OUTCOME)
    consistency = {"good": (1 + TAU) / 2, "bad": (1 - TAU) / 2, "same": 0.5}
    assert {name: one.weight for name, one in found.items()} == pytest.approx(
        {name: 3 * one / 1.5 for name, one in consistency.items()}
    )
    assert found["same"] == (None, 1.0)


def test_without_an_order_all_weights_are_one() -> None:
    for local, outcome in (
        ({"a": [0.3], "b": [0.7]}, [1.0]),  # a group of one
        ({"a": [0.3, 0.1], "b": [0.7, 0.9]}, [1.0, 1.0]),  # outcomes all tied
        ({"a": [0.0, 1.0], "b": [0.0, 2.0]}, [1.0, 0.0]),  # every tau is -1
        ({"a": [], "b": []}, []),
    ):
        assert [one.weight for one in rank_consistency_weights(local, outcome).values()] == [1.0, 1.0]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=25))
def test_tau_b_is_scipys_and_the_weights_have_the_mean_one(values: list[tuple[int, int, int]]) -> None:
    one, other, outcome = ([float(value) for value in column] for column in zip(*values, strict=True))
    tau, expected = kendall_tau_b(one, outcome), float(kendalltau(one, outcome).statistic)
    assert (tau is None) is math.isnan(expected)
    assert tau is None or tau == pytest.approx(expected)
    weights = [found.weight for found in rank_consistency_weights({"a": one, "b": other}, outcome).values()]
    assert sum(weights) == pytest.approx(2)
    assert min(weights) >= 0
    swapped = rank_consistency_weights({"b": other, "a": one}, outcome)
    assert swapped["a"].weight == pytest.approx(weights[0])
    order = sorted(range(len(one)), key=lambda at: (other[at], at))
    shuffled = kendall_tau_b([one[at] for at in order], [outcome[at] for at in order])
    assert shuffled == (None if tau is None else pytest.approx(tau))


def team_rows(outcomes: list[str], **fields: Any) -> list[Any]:
    """Two actors in four attempts; the first one's reward follows the outcome, the second one's does not."""
    found = []
    for number, outcome in enumerate(outcomes):
        for actor in ("good", "bad"):
            spans = [{"step": 0, "reward": LOCAL[actor][number] / 2}, {"step": 2, "reward": LOCAL[actor][number] / 2}]
            found.append(row(str(number), 2, spans=spans, actor=actor, branch=actor, outcome=outcome, **fields))
    return found


@pytest.mark.parametrize("method", ["grpo", "m-grpo"])
def test_the_advantages_of_an_actor_are_multiplied_by_its_weight(method: str) -> None:
    rows = team_rows(["pass", "pass", "fail", "fail"])
    plain = assign_credit(rows, CreditConfig(method=method))
    weighed = assign_credit(rows, CreditConfig(method=method, actors="rank-consistency"))
    expected = {"good": 1 + TAU, "bad": 1 - TAU}
    assert plain.actors == {}
    assert {actor: one.weight for (_, actor), one in weighed.actors.items()} == pytest.approx(expected)
    for before, after in zip(plain.rows, weighed.rows, strict=True):
        assert before.advantages is not None
        assert np.any(before.advantages)
        np.testing.assert_allclose(after.advantages, before.advantages * expected[before.actor or ""], rtol=1e-5)


def test_only_attempts_that_count_are_ranked() -> None:
    rows = team_rows(["pass", "pass", "fail", "unknown"])
    config = CreditConfig(actors="rank-consistency")
    three = 2 / math.sqrt(2 * 3)  # two concordant pairs of three, one tied in the outcome
    assert assign_credit(rows, config).actors["g", "good"].tau == pytest.approx(three)
    cheated = team_rows(["fail", "fail", "fail", "pass"], integrity="fail")
    found = assign_credit(cheated, config).actors["g", "good"]
    assert (found.tau, found.weight) == (None, 1.0)  # a dishonest pass is a fail: all outcomes are equal


def test_what_a_dishonest_attempt_earned_on_the_way_ranks_no_actor() -> None:
    rows = team_rows(["pass", "pass", "fail", "pass"])
    rows[6:] = [replace(one, integrity="fail") for one in rows[6:]]  # the last attempt cheated
    found = assign_credit(rows, CreditConfig(actors="rank-consistency")).actors
    # The bad one's rewards are .1, .2, .8 and 0, of which the last was .9: two pairs of four agree with the outcomes.
    assert found["g", "bad"].tau == pytest.approx(0)
    assert found["g", "good"].tau == pytest.approx(TAU)
    ignoring = assign_credit(rows, CreditConfig(actors="rank-consistency", evidence="ignore")).actors
    assert ignoring["g", "good"].tau == pytest.approx(1 / math.sqrt(6 * 3))  # two pairs of three, one against


def test_an_actor_of_attempts_that_do_not_count_has_no_weight() -> None:
    rows = team_rows(["pass", "pass", "fail", "unknown"])
    plain = assign_credit(rows, CreditConfig(actors="rank-consistency"))
    late = row("3", 1, actor="late", branch="late", outcome="unknown")
    found = assign_credit([*rows, late], CreditConfig(actors="rank-consistency"))
    assert found.actors == plain.actors
    assert sum(one.weight for one in found.actors.values()) == pytest.approx(2)


def test_weights_are_described_by_actor() -> None:
    weights = {
        ("g", "b"): ActorWeight(0.5, 1.5),
        ("h", "b"): ActorWeight(None, 1.0),
        ("g", "a"): ActorWeight(None, 0.5),
    }
    assert describe_weights(weights) == [
        "a: 0.500, mean over 1; tau undefined in all of them",
        "b: 1.250, mean over 2; tau +0.500 in 1 of them",
    ]
    assert describe_weights({}) == []


def test_rows_without_an_actor_keep_their_advantage() -> None:
    rows = [row("0", outcome="pass"), row("1", outcome="fail")]
    plain = assign_credit(rows, CreditConfig())
    weighed = assign_credit(rows, CreditConfig(actors="rank-consistency"))
    for before, after in zip(plain.rows, weighed.rows, strict=True):
        np.testing.assert_array_equal(before.advantages, after.advantages)


def test_rewards_of_turns_are_set_by_step() -> None:
    (found,) = set_turn_rewards([row("0", 3, spans=[{"step": 0}, {"step": None}, {"step": 4}])], {0: 0.5, 4: -0.25})
    assert [turn.reward for turn in found.turns] == [0.5, 0.0, -0.25]
