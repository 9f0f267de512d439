"""Losses and gradients are those that are written out here, in plain loops."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from assay.learning.rows import TrainingRow
from assay.learning.trainer.batches import plan_passes, token_weights
from assay.learning.trainer.dpo import ScoredPairs, TokenPair, dpo_step, score_pairs
from assay.learning.trainer.loss import clipped_surrogate, k3_divergence
from assay.learning.trainer.optimise import Optimiser
from assay.learning.trainer.options import OptimiserOptions, PolicyGradientOptions
from assay.learning.trainer.policy_gradient import update_policy
from assay.learning.trainer.sft import sft_step
from tests.optional import require_packages

from .conftest import WORDS, make_bigram

require_packages("torch")


class Watched(Optimiser):
    """Keeps the gradient and steps nowhere."""

    def step(self, losses: Any) -> float:
        for loss in losses:
            loss.backward()
        self.steps_taken += 1
        return 0.0


def watched(model: Any, **how: Any) -> Watched:
    return Watched(model, OptimiserOptions(**how), 1)


def softmax(model: Any, before: int) -> Any:
    scores = np.exp(model.table.detach().double().numpy()[before])
    return scores / scores.sum()


def slope(model: Any, before: int, token: int) -> Any:
    """d log p(token | before) / d table, written out."""
    found = np.zeros((WORDS, WORDS))
    found[before] = -softmax(model, before)
    found[before, token] += 1
    return found


def near(model: Any, expected: Any) -> bool:
    return bool(np.max(np.abs(model.table.grad.double().numpy() - expected)) < 1e-6)


def test_supervised_loss_is_the_mean_over_trained_tokens(policy: Any, row: Any, log_probs: Any) -> None:
    rows = [row("a", [1, 2, 3, 4], [(1, 3)]), row("b", [5, 6, 0], [(2, 3)])]
    measured = sft_step(policy, watched(policy.model), rows)
    trained = [(1, 2), (2, 3), (6, 0)]
    expected = -sum(math.log(softmax(policy.model, b)[t]) for b, t in trained) / 3
    assert measured["loss"] == pytest.approx(expected, abs=1e-6)
    assert near(policy.model, -sum(slope(policy.model, b, t) for b, t in trained) / 3)


@pytest.mark.parametrize("off", [-0.5, 0.0, 0.4])
@pytest.mark.parametrize("advantage", [-1.5, 0.7])
def test_the_policy_gradient_is_the_clipped_surrogate(policy: Any, row: Any, off: float, advantage: float) -> None:
    given = row("a", [1, 2, 3, 4], [(1, 4)], advantage=advantage, off=off)
    options = PolicyGradientOptions(old="sampled", clip_low=0.2, clip_high=0.3, most_gap=9.0)
    measured = update_policy(policy, watched(policy.model), [given], options)
    ratio = math.exp(-off)
    held = min(max(ratio, 0.8), 1.3)
    cut = held * advantage < ratio * advantage
    assert measured["loss"] == pytest.approx(-min(ratio * advantage, held * advantage), abs=1e-6)
    slopes = sum(slope(policy.model, b, t) for b, t in [(1, 2), (2, 3), (3, 4)]) / 3
    assert near(policy.model, np.zeros((WORDS, WORDS)) if cut else -ratio * advantage * slopes)
    assert measured["clipped"] == float(cut)


def test_an_attempt_weighs_the_same_however_many_rows_and_tokens_it_has(policy: Any, row: Any) -> None:
    long = [row("a", [1, 2, 3, 4, 5], [(1, 5)], advantage=1.0), row("a", [1, 6], [(1, 2)], advantage=1.0, branch="c")]
    short = row("b", [0, 3], [(1, 2)], advantage=-1.0)
    update_policy(policy, watched(policy.model), [*long, short], PolicyGradientOptions())
    pairs = [(1, 2), (2, 3), (3, 4), (4, 5), (1, 6)]
    expected = -sum(slope(policy.model, b, t) for b, t in pairs) / 5 / 2 + slope(policy.model, 0, 3) / 2
    assert near(policy.model, expected)


@pytest.mark.parametrize(("normalise", "each"), [("token", (1 / 4, 1 / 4)), ("constant", (1 / 20, 1 / 20))])
def test_other_ways_of_weighing(normalise: Any, each: tuple[float, float]) -> None:
    masks = [np.array([0, 1, 1, 1]), np.array([0, 1])]
    found = token_weights(masks, np.array([0, 1]), normalise, 10)
    assert [found[0][1], found[1][1]] == pytest.approx(each)


def test_a_step_in_many_passes_has_the_same_gradient(policy: Any, row: Any, torch: Any) -> None:
    rows = [
        row(f"a{i}", [i % WORDS, (i * 3) % WORDS, 2, 5][: 2 + i % 3], [(1, 2)], advantage=i - 3.0) for i in range(8)
    ]
    update_policy(policy, watched(policy.model), rows, PolicyGradientOptions())
    once = policy.model.table.grad.clone()
    policy.model.table.grad = None
    update_policy(policy, watched(policy.model, tokens_at_once=4), rows, PolicyGradientOptions())
    assert len(list(plan_passes([len(one) for one in rows], 4))) > 3
    assert torch.allclose(once, policy.model.table.grad, atol=1e-7)


def test_preferences_are_learned_on_the_two_answers_alone(policy: Any) -> None:
    ids = [np.array(i, dtype=np.int32) for i in ([1, 2], [3], [4, 5])]
    pair = TokenPair(*ids, "a", "b")
    given = ScoredPairs((pair,), ((-1.0, -2.5),))
    measured = dpo_step(policy, watched(policy.model), given, 0.5)
    good = math.log(softmax(policy.model, 2)[3])
    bad = math.log(softmax(policy.model, 2)[4]) + math.log(softmax(policy.model, 4)[5])
    margin = 0.5 * ((good - bad) - (-1.0 + 2.5))
    assert measured["loss"] == pytest.approx(math.log1p(math.exp(-margin)), abs=1e-6)
    pulls = slope(policy.model, 2, 3) - slope(policy.model, 2, 4) - slope(policy.model, 4, 5)
    assert near(policy.model, -0.5 / (1 + math.exp(margin)) * pulls)
    assert score_pairs(policy, [pair], 64).reference[0] == pytest.approx((good, bad), abs=1e-6)


def test_the_pull_to_a_reference_is_schulmans_estimate(torch: Any) -> None:
    ours = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    theirs, weights = torch.tensor([[-1.5, -2.0]]), torch.tensor([[0.5, 0.5]])
    found = k3_divergence(ours, theirs, weights)
    found.backward()
    assert found.item() == pytest.approx(0.5 * (math.exp(-0.5) - 1 + 0.5), abs=1e-6)
    assert ours.grad is not None
    assert ours.grad[0, 0].item() == pytest.approx(0.5 * (1 - math.exp(-0.5)), abs=1e-6)


def test_the_observation_term_and_the_pull_add_their_own_gradients(policy: Any, row: Any, torch: Any) -> None:
    given: TrainingRow = row("a", [1, 2, 3, 4], [(1, 2)], advantage=0.0, weights={"ce": np.array([0, 0, 1, 1])})
    other = make_bigram(torch, seed=3)
    options = PolicyGradientOptions(reference_pull=0.1)
    measured = update_policy(policy, watched(policy.model), [given], options, reference=other)
    seen = -sum(slope(policy.model, b, t) for b, t in [(2, 3), (3, 4)]) / 2
    gap = math.log(softmax(other, 1)[2]) - math.log(softmax(policy.model, 1)[2])
    assert near(policy.model, seen + 0.1 * (1 - math.exp(gap)) * slope(policy.model, 1, 2))
    assert measured["pull"] == pytest.approx(0.1 * (math.exp(gap) - 1 - gap), abs=1e-6)


def test_observations_of_a_shared_beginning_are_foreseen_once(policy: Any, row: Any) -> None:
    first = row("a", [1, 2, 3, 4], [(1, 2)], advantage=0.0)
    second = row("a", [1, 2, 3, 5, 6], [(1, 2), (3, 4)], advantage=0.0, branch="other")
    rows = [first, msgspec.structs.replace(second, shared=3)]
    update_policy(
        policy, watched(policy.model), rows, PolicyGradientOptions(observation_weight=0.3, observation_warmup=0)
    )
    seen = [(2, 3), (3, 4), (5, 6)]
    assert near(policy.model, -0.3 / 3 * sum(slope(policy.model, b, t) for b, t in seen))


def test_tokens_without_weight_never_disturb_the_surrogate(torch: Any) -> None:
    logprobs = torch.tensor([[-1.0, -900.0]], requires_grad=True)
    found = clipped_surrogate(
        logprobs, torch.tensor([[-1.0, 0.0]]), torch.ones(1, 2), torch.tensor([[1.0, 0.0]]), (0.2, 0.2)
    )
    found.loss.backward()
    assert logprobs.grad is not None
    assert (found.loss.item(), logprobs.grad[0].tolist()) == (-1.0, [-1.0, 0.0])
