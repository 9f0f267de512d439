"""Masks and token weights against loops and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.learning.credit import Batch, make_batch
from assay.learning.credit.echo import echo_weights
from assay.learning.credit.entropy import entropy
from assay.learning.credit.first_error import first_error
from assay.learning.credit.grpo import grpo
from assay.learning.credit.importance import importance_weights
from assay.learning.credit.staleness import fresh
from tests.learning.credit import slow
from tests.learning.credit.made import NAN, batches, by_hand

pytestmark = pytest.mark.newest


@settings(max_examples=30, deadline=None)
@given(batches, st.sampled_from(["keep", "mask"]))
def test_first_error_is_its_definition(held: Batch, after: str) -> None:
    credit = grpo(held)
    found = first_error(held, credit, after=after)  # type: ignore[arg-type]
    assert found.mask.tolist() == slow.first_error(held, credit.mask.tolist(), later=after == "mask")
    assert sum(found.reasons.values()) == int((~found.mask).sum())


@settings(max_examples=30, deadline=None)
@given(batches, st.sampled_from([0.1, 0.2, 0.5, 1.0]), st.booleans())
def test_entropy_is_its_definition(held: Batch, share: float, within_group: bool) -> None:
    credit = first_error(held, grpo(held))
    found = entropy(held, credit, share=share, within="group" if within_group else "batch")
    assert found.mask.tolist() == slow.entropy(held, credit.mask.tolist(), share, within_group=within_group)
    assert sum(found.reasons.values()) == int((~found.mask).sum())


@settings(max_examples=30, deadline=None)
@given(batches, st.integers(0, 4), st.booleans())
def test_freshness_is_its_definition(held: Batch, most: int, whole: bool) -> None:
    credit = grpo(held)
    found = fresh(held, credit, now=5, most=most, by="attempt" if whole else "turn")
    assert found.mask.tolist() == slow.fresh(held, credit.mask.tolist(), 5, most, whole=whole)


def test_masks_by_hand() -> None:
    held = by_hand(
        outcome=[1, 1, 1, 0],
        error=[False, True, False, False, True],
        entropy=[0.1, 0.9, 0.5, NAN, 0.2],
        version=[3, 4, 1, -1, 4],
    )
    credit = grpo(held)
    assert first_error(held, credit).mask.tolist() == [False, True, True, True, True]
    assert entropy(held, credit, share=0.5).mask.tolist() == [False, True, True, False, False]
    assert entropy(held, credit, share=0.5).reasons == {"entropy not known": 1, "entropy low": 2}
    assert fresh(held, credit, now=4, most=2).reasons == {"version not known": 1, "stale": 1}


def test_a_stale_attempt_stays_in_the_baseline() -> None:
    held = make_batch(group=[0, 0], reward=[1, 0], attempt=[0, 1], version=[9, 1])
    found = fresh(held, grpo(held), now=9, most=2)
    assert found.advantage.tolist() == pytest.approx([0.70711, 0.0], abs=1e-4)


def test_a_version_yet_to_come_is_refused() -> None:
    held = by_hand(version=[1, 2, 3, 4, 9])
    with pytest.raises(ValueError, match="version 9, newer than the trainer's 4"):
        fresh(held, grpo(held), now=4)


tokens = st.lists(st.tuples(st.sampled_from(["action", "observation", "warning", "template"]), st.integers(0, 2)))


@settings(max_examples=50, deadline=None)
@given(tokens)
def test_echo_weights_are_their_definition(given_tokens: list[tuple[str, int]]) -> None:
    given_tokens.sort(key=lambda each: each[1])
    roles, rows = [role for role, _ in given_tokens], [row for _, row in given_tokens]
    found = echo_weights(np.array(roles, dtype="<U12"), np.array(rows, dtype=np.int64), alpha=0.3)
    np.testing.assert_allclose(found, slow.echo_weights(roles, rows, 0.3), rtol=1e-6)


def test_echo_weights_by_hand() -> None:
    names = ("template", "prompt", "action", "observation", "warning", "unknown")
    roles = np.array([1, 3, 2, 3, 4, 3, 0], dtype=np.uint8)
    # The first observation was caused by nothing; the warning is the harness's.
    assert echo_weights(roles, alpha=0.5, names=names).tolist() == [0, 0, 0, 0.25, 0, 0.25, 0]


logprobs = st.one_of(st.floats(-30, 0), st.just(NAN))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(logprobs, st.floats(-30, 0), st.integers(0, 3))), st.booleans())
def test_importance_weights_are_their_definition(held: list[tuple[float, float, int]], mean: bool) -> None:
    now, then, unit = [h[0] for h in held], [h[1] for h in held], [h[2] for h in held]
    found = importance_weights(
        np.array(now, dtype=float),
        np.array(then, dtype=float),
        np.array(unit, dtype=np.int64),
        mean=mean,
        band=(0.5, 5.0),
    )
    np.testing.assert_allclose(found.weight, slow.importance(now, then, unit, 2.0, (0.5, 5.0), mean=mean), rtol=1e-5)
    assert found.mismatch >= 0


def test_importance_weights_by_hand() -> None:
    now, then = np.log([0.5, 0.5, 0.25]), np.log([0.25, 0.25, 0.5])
    assert importance_weights(now, then).weight.tolist() == pytest.approx([2, 2, 0.5])
    whole = np.zeros(3, dtype=np.int64)
    assert importance_weights(now, then, whole).weight.tolist() == pytest.approx([2, 2, 2])
    assert importance_weights(now, then, whole, mean=True).weight.tolist() == pytest.approx([2 ** (1 / 3)] * 3)
    assert importance_weights(now, then, cap=1.5)._replace(mismatch=0)[1:3] == (2, 0)
    assert importance_weights(now, then, band=(0.6, 3.0)).weight.tolist() == pytest.approx([2, 2, 0])


def test_wild_log_probabilities_do_not_overflow() -> None:
    found = importance_weights(np.zeros(2), np.array([-1e9, 1e9]), cap=3.0)
    assert found.weight.tolist() == pytest.approx([3.0, 0.0])
    assert np.isfinite(found.mismatch)
