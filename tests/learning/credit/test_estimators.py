"""Every estimator against its formula written out with loops, and on one case done by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from assay import plugins
from assay.learning.credit import Batch, make_batch
from tests.learning.credit import slow
from tests.learning.credit.made import NAN, batches, by_hand

pytestmark = pytest.mark.newest

CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("grpo", {}, slow.grpo),
    ("dr-grpo", {}, slow.dr_grpo),
    ("rloo", {}, slow.rloo),
    ("reinforce++", {}, slow.reinforce_plus_plus),
    ("reinforce++", {"baseline": "group"}, slow.reinforce_plus_plus_group),
    ("gae", {}, slow.gae),
    ("gigpo", {}, slow.gigpo),
    ("gigpo", {"normalise": "deviation"}, slow.gigpo_deviation),
    ("gigpo", {"weigh": "turns"}, slow.gigpo_by_turns),
    ("step-returns", {}, slow.step_returns),
    ("m-grpo", {}, slow.m_grpo),
    ("xrpo", {}, slow.xrpo),
    ("sweet-spot", {}, slow.sweet_spot),
    ("leave-one-out", {}, slow.leave_one_out),
    ("progress", {}, slow.progress),
    ("hindsight", {}, slow.hindsight),
]


@pytest.mark.parametrize(("name", "options", "reference"), CASES, ids=[f"{c[0]} {c[1] or ''}".strip() for c in CASES])
@settings(max_examples=30, deadline=None)
@given(batches)
def test_an_estimator_is_its_formula(name: str, options: dict[str, Any], reference: Any, given_batch: Batch) -> None:
    found = plugins.load("advantages", name)(given_batch, **options)
    np.testing.assert_allclose(found.advantage, np.asarray(reference(given_batch)), rtol=2e-5, atol=2e-5)
    assert sum(found.reasons.values()) == int((~found.mask).sum())
    assert not found.advantage[~found.mask].any()


@pytest.mark.parametrize(
    ("options", "reference"), [({}, slow.mc_grpo), ({"scale": "mad", "rescale": True}, slow.mc_grpo_released)]
)
@settings(max_examples=30, deadline=None)
@given(batches)
def test_mc_grpo_is_its_formula_but_for_one_pivot_in_each_odd_group(
    options: Any, reference: Any, given_batch: Batch
) -> None:
    found = plugins.load("advantages", "mc-grpo")(given_batch, **options)
    # The pivot's advantage is 0 with or without its mask.
    np.testing.assert_allclose(found.advantage, np.asarray(reference(given_batch)), rtol=2e-5, atol=2e-5)
    masked = set(given_batch.attempt[~found.mask].tolist())
    for attempt in masked:
        rivals = slow.rivals(given_batch, attempt)
        assert len(rivals) % 2 == 1
        assert len(masked & set(rivals)) == 1


HAND: list[tuple[str, dict[str, Any], dict[str, Any], list[float]]] = [
    # Group of 1, 0, 0: mean 1/3, deviation sqrt(1/3) = 0.57735; the group of one gets nothing.
    ("grpo", {}, {}, [1.15470, 1.15470, -0.57735, -0.57735, 0]),
    ("dr-grpo", {}, {}, [2 / 3, 2 / 3, -1 / 3, -1 / 3, 0]),
    ("rloo", {}, {}, [1, 1, -0.5, -0.5, 0]),
    # Returns 1, 1, 0, 0, 1 of 1, 1, 1, 2, 1 tokens: mean 1/2, deviation 1/2.
    ("reinforce++", {}, {"tokens": [1, 1, 1, 2, 1]}, [1, 1, -1, -1, 1]),
    # Surprises 0.1, 0.6, -0.5, -0.5, 0.5; the first carries 0.5 of the second.
    ("gae", {"discount": 1.0, "decay": 0.5}, {"value": [0.3, 0.4, 0.5, 0.5, 0.5]}, [0.4, 0.6, -0.5, -0.5, 0.5]),
    # Returns 0.5, 1, 0, 0, 1; state 1 is shared by the first turns of attempts 0 and 1.
    ("gigpo", {"discount": 0.5}, {"state": [1, 2, 1, 3, 1]}, [2 / 3 + 0.25, 2 / 3, -1 / 3 - 0.25, -1 / 3, 0]),
    ("mc-grpo", {}, {}, [1, 1, 0, 0, 0]),
    # Turn 0 of three attempts: 0.5, 0, 0, mean 1/6; turn 1 has no rival.
    ("step-returns", {"discount": 0.5}, {}, [1 / 3, 0, -1 / 6, -1 / 6, 0]),
    # Attempts 1 and 2 are sub-agents of 0: of one reward, so nothing between them; 0 is alone among main ones.
    ("m-grpo", {}, {"parent": [-1, 0, 0, -1]}, [0, 0, 0, 0, 0]),
    # Log-likelihood -1 against a mean of -1/3: novelty exp(-2/3) = 0.51342, so 0.48658 on top.
    ("xrpo", {}, {"logprob": [-1, -1, 0, 0, 0]}, [1.15470 + 0.48658, 1.15470 + 0.48658, -0.57735, -0.57735, 0]),
    # Rewards 1 (passed), 3/15 (two tiers), 0: mean 0.4, deviation 0.52915.
    ("sweet-spot", {}, {"outcome": [0, 1, 1, 0], "progress": [NAN, 1, 0.6, 0.1, 1]},
     [1.13389, 1.13389, -0.37796, -0.75593, 0]),
    # Without turn 0 it is still won, without turn 1 it is lost: 0 and 1, mean 1/2.
    ("leave-one-out", {}, {"without": [1, 0, NAN, NAN, NAN]}, [0.5, 1.5, -0.5, -0.5, 0]),
    # Gains 0.5, 0.5, 0.2, 0 in the group, mean 0.3.
    ("progress", {}, {"progress": [0.5, 1, 0.2, 0, 1]}, [1.2, 1.2, -0.6, -0.8, 0]),
    # Of forks the first measurement is no gain: 0, 0.5, 0, 0 in the group, mean 0.125.
    ("progress", {}, {"progress": [0.5, 1, 0.2, 0, 1], "forked": [True, True, True, False]},
     [0.875, 1.375, -0.625, -0.625, 0]),
    # Attempt 1 ends where it began, attempt 2 in state 4: at that goal it is a success.
    ("hindsight", {}, {"outcome": [0, 1, 1, 0], "state": [1, 2, 1, 1, 1], "final_state": [3, 1, 4, 3]},
     [0, 0, 0, 1, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "columns", "expected"), HAND, ids=[case[0] for case in HAND])
def test_an_estimator_by_hand(
    name: str, options: dict[str, Any], columns: dict[str, Any], expected: list[float]
) -> None:
    found = plugins.load("advantages", name)(by_hand(**columns), **options)
    np.testing.assert_allclose(found.advantage, expected, atol=1e-4)


def test_a_pivot_is_masked_and_told() -> None:
    found = plugins.load("advantages", "mc-grpo")(by_hand())
    assert found.mask.tolist() == [True, True, False, True, True]
    assert found.reasons == {"pivot of its group": 1}


def test_m_grpo_compares_sub_agents_with_sub_agents_alone() -> None:
    held = make_batch(group=[0] * 4, reward=[1, 0, NAN, NAN], attempt=[0, 1, 2, 3], parent=[-1, -1, 0, 1])
    found = plugins.load("advantages", "m-grpo")(held)
    np.testing.assert_allclose(found.advantage, [0.70711, -0.70711, 0.70711, -0.70711], atol=1e-4)


def test_a_circle_of_parents_is_refused() -> None:
    held = make_batch(group=[0, 0], reward=[1, 0], attempt=[0, 1], parent=[1, 0])
    with pytest.raises(ValueError, match="circle"):
        plugins.load("advantages", "m-grpo")(held)


def test_a_missing_reward_is_no_zero() -> None:
    held = make_batch(group=[0, 0], reward=[1, NAN], attempt=[0, 1])
    for name in ("grpo", "dr-grpo", "rloo", "reinforce++", "gigpo", "mc-grpo", "step-returns", "m-grpo", "xrpo"):
        with pytest.raises(ValueError, match="attempt 1 has no reward"):
            plugins.load("advantages", name)(held)


@pytest.mark.parametrize("name", ["gae", "leave-one-out", "progress", "sweet-spot", "hindsight"])
def test_a_missing_column_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="needs the column"):
        plugins.load("advantages", name)(by_hand(outcome=[0, 1, 1, 0]))
