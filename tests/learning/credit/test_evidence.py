"""What is not verified trains nobody, what is not honest is no success, whatever the estimator."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import plugins
from assay.errors import PluginLoadError, UserError
from assay.learning.credit import Batch, CreditConfig, MaskStage, compute_credit, evidence_aware, make_batch
from assay.learning.credit.evidence import exclusion_reasons, subset
from assay.learning.credit.interface import FAIL, PASS
from tests.learning.credit.made import NAN, batches, by_hand

pytestmark = pytest.mark.quick

ESTIMATORS = ["grpo", "dr-grpo", "rloo", "reinforce++", "gae", "gigpo", "mc-grpo", "step-returns", "m-grpo", "xrpo",
              "sweet-spot", "leave-one-out", "progress", "hindsight"]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ESTIMATORS), batches)
def test_no_estimator_credits_what_is_not_verified_or_not_honest(name: str, held: Batch) -> None:
    found = evidence_aware(plugins.load("advantages", name))(held)
    outcome, integrity = held.outcome[held.attempt], held.integrity[held.attempt]
    assert not found.mask[(outcome != PASS) & (outcome != FAIL)].any()
    assert not (found.advantage[integrity == FAIL] > 0).any()
    assert sum(found.reasons.values()) == int((~found.mask).sum())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ESTIMATORS), batches)
def test_what_is_left_out_changes_nothing_for_the_rest(name: str, held: Batch) -> None:
    method = evidence_aware(plugins.load("advantages", name))
    out = exclusion_reasons(held) != ""
    twisted = held._replace(
        reward=np.where(out, 1000.0, held.reward), turn_reward=np.where(out[held.attempt], 77.0, held.turn_reward)
    )
    np.testing.assert_array_equal(method(held).advantage, method(twisted).advantage)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ESTIMATORS), batches)
def test_what_a_cheat_earned_moves_no_baseline(name: str, held: Batch) -> None:
    method = evidence_aware(plugins.load("advantages", name))
    cheated = held.integrity == FAIL
    judged_so = np.where(cheated, FAIL, held.outcome).astype(np.int8)
    forged = held._replace(
        outcome=np.where(cheated, PASS, held.outcome).astype(np.int8), reward=np.where(cheated, 1000.0, held.reward)
    )
    honest = ~cheated[held.attempt]
    lowered = held._replace(outcome=judged_so, reward=np.where(cheated, np.minimum(held.reward, 0.0), held.reward))
    np.testing.assert_array_equal(method(forged).advantage[honest], method(lowered).advantage[honest])


def test_evidence_by_hand() -> None:
    held = make_batch(
        group=[0] * 5,
        reward=[1, 1, 0, 1, NAN],
        attempt=[0, 1, 2, 3, 4],
        outcome=[0, 0, 1, 2, 0],
        integrity=[0, 1, 0, 0, 0],
    )
    found = evidence_aware(plugins.load("advantages", "rloo"))(held)
    # Rewards 1, 0 (a cheat), 0 of three attempts: others' means 0, 1/2, 1/2.
    assert found.advantage.tolist() == pytest.approx([1, -0.5, -0.5, 0, 0])
    assert found.mask.tolist() == [True, True, True, False, False]
    assert found.reasons == {"outcome not judged": 1, "no reward": 1}
    gone = evidence_aware(plugins.load("advantages", "rloo"), dishonest="mask")(held)
    assert gone.advantage.tolist() == pytest.approx([1, 0, -1, 0, 0])
    assert gone.reasons["integrity failed"] == 1


def test_what_a_doubtful_failure_reached_is_no_goal() -> None:
    held = by_hand(outcome=[0, 1, 1, 0], integrity=[0, 0, 2, 0], state=[1, 1, 1, 1, 1], final_state=[3, 4, 4, 3])
    found = evidence_aware(plugins.load("advantages", "hindsight"))(held)
    assert found.mask.tolist() == [False, False, True, False, False]


def test_sub_agents_are_left_out_with_who_called_them() -> None:
    held = by_hand(outcome=[2, 0, 0, 0], parent=[-1, 0, 1, -1])
    found = evidence_aware(plugins.load("advantages", "m-grpo"))(held)
    assert found.mask.tolist() == [False, False, False, False, True]
    assert found.reasons == {"outcome not judged": 2, "its caller is left out": 2}


def test_integrity_can_be_demanded() -> None:
    held = by_hand(outcome=[0, 1, 1, 0], integrity=[0, -1, 2, -1])
    assert evidence_aware(plugins.load("advantages", "grpo"))(held).mask.all()
    found = evidence_aware(plugins.load("advantages", "grpo"), need_integrity=True)(held)
    assert found.mask.tolist() == [True, True, True, True, False]
    assert found.reasons == {"integrity not judged": 1}


def test_a_pass_of_unknown_integrity_is_no_pass_and_a_fail_stays_one() -> None:
    held = by_hand(outcome=[0, 1, 1, 0], integrity=[2, 2, 3, 3])
    found = evidence_aware(plugins.load("advantages", "grpo"))(held)
    assert found.mask.tolist() == [False, False, True, True, False]
    assert found.reasons == {"integrity not known": 3}


@settings(max_examples=30, deadline=None)
@given(batches)
def test_a_subset_is_a_batch(held: Batch) -> None:
    kept = held.reward > 0
    part, turns = subset(held, kept)
    make_batch(part.group, part.reward, part.attempt, parent=part.parent)
    assert len(part.group) == int(kept.sum())
    np.testing.assert_array_equal(part.reward[part.attempt], held.reward[held.attempt[turns]])


def test_credit_by_name_with_masks() -> None:
    held = by_hand(outcome=[0, 1, 1, 2], error=[False] * 2 + [True] + [False] * 2, version=[3, 3, 3, 0, 3])
    masks = (MaskStage("first-error", {"after": "mask"}), MaskStage("fresh", {"now": 3, "most": 1}))
    found = compute_credit(held, CreditConfig("dr-grpo", masks=masks))
    assert found.advantage.tolist() == pytest.approx([2 / 3, 2 / 3, -1 / 3, 0, 0])
    assert found.reasons == {"outcome not judged": 1, "stale": 1}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (CreditConfig("grpo", {"eps": 1}), "'grpo' has no option 'eps'"),
        (
            CreditConfig("grpo", {"epsilon": "x"}),
            "option 'epsilon' is 'x': expected a finite number, got the string 'x'",
        ),
        (CreditConfig("gigpo", {"normalise": "no"}), "option 'normalise' is 'no': expected 'none' or 'deviation'"),
        (CreditConfig("fresh"), "'fresh' is a mask, not an estimator"),
        (CreditConfig(masks=(MaskStage("rloo"),)), "'rloo' is an estimator, not a mask"),
        (CreditConfig("gae", evidence="ignore"), "credit by 'gae': this method needs the column 'value'"),
        (CreditConfig(masks=(MaskStage("fresh"),)), "credit by 'fresh'"),
    ],
)
def test_a_wrong_recipe_is_told(config: CreditConfig, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        compute_credit(by_hand(outcome=[0, 1, 1, 0]), config)


def test_an_unknown_method_is_answered_with_the_nearest() -> None:
    with pytest.raises(PluginLoadError, match="did you mean"):
        compute_credit(by_hand(), CreditConfig("gipo"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"attempt": [1, 0]}, "must not decrease"),
        ({"attempt": [0, 2]}, "attempts from 0 to 1"),
        ({"state": [1]}, "'state' has shape"),
        ({"stat": [1]}, "no column 'stat'"),
        ({"outcome": [0, 7]}, "'outcome' holds a code"),
        ({"parent": [-1, 2]}, "'parent' must name"),
        ({"reward": [1, np.inf]}, "infinite"),
        ({"tokens": [1, -1]}, "negative"),
        ({"value": [1, NAN]}, "'value' holds NaN"),
        ({"progress": [1, np.inf]}, "'progress' holds an infinite number"),
    ],
)
def test_a_batch_is_checked(columns: dict[str, object], said: str) -> None:
    given = {"group": [0, 0], "reward": [1, 0], "attempt": [0, 1], **columns}
    with pytest.raises(ValueError, match=said):
        make_batch(**given)
