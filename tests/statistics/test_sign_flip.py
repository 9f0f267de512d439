"""The sign-flip test against all assignments of signs, written out; and levels of holdouts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.statistics import HoldoutExhaustedError, grant_level, sign_flip_test, sign_test, spent_levels

QUARTERS = st.integers(-4, 4).map(lambda n: n / 4)


@given(st.lists(QUARTERS, max_size=9))
def test_p_value_is_the_share_of_sign_assignments(differences: list[float]) -> None:
    sums = [
        sum(sign * abs(d) for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    share = sum(one >= sum(differences) - 1e-9 for one in sums) / len(sums)
    assert sign_flip_test(differences) == pytest.approx(share)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=30))
def test_one_attempt_a_task_is_the_sign_test(differences: list[float]) -> None:
    expected = sign_test(differences.count(1.0), differences.count(-1.0), "gain")
    assert sign_flip_test(differences) == pytest.approx(expected)


def test_differences_without_a_fraction_use_their_signs() -> None:
    assert sign_flip_test([0.1234567, 0.7654321, 0.5]) == 1 / 8
    with pytest.raises(ValueError, match="finite"):
        sign_flip_test([float("nan")])


def test_level_is_what_is_left_of_the_most_used_task() -> None:
    spent = spent_levels([(["a", "b"], 0.03), (["b"], 0.01)])
    assert grant_level(["a", "b"], spent, 0.03).alpha == pytest.approx(0.01)
    assert grant_level(["c"], spent, 0.03).left == pytest.approx(0.02)
    with pytest.raises(HoldoutExhaustedError):
        grant_level(["b"], spent_levels([(["b"], 0.05)]), 0.03)
    with pytest.raises(ValueError, match="between 0 and 1"):
        grant_level(["b"], {}, 0.0)
