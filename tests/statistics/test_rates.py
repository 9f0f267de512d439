from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.statistics import fisher_exact, pass_at_k, pass_hat_k, wilson

pytestmark = pytest.mark.quick
COUNTS = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


def drawn(n: int, c: int, k: int) -> list[int]:
    """How many passed in every way to draw k of the n attempts, written out."""
    attempts = [1] * c + [0] * (n - c)
    return [sum(chosen) for chosen in combinations(attempts, k)]


@given(COUNTS)
def test_pass_at_k_is_the_share_of_draws_with_a_pass(counts: tuple[int, int, int]) -> None:
    draws = drawn(*counts)
    assert pass_at_k(*counts) == pytest.approx(sum(d >= 1 for d in draws) / len(draws))


@given(COUNTS)
def test_pass_hat_k_is_the_share_of_draws_of_passes_alone(counts: tuple[int, int, int]) -> None:
    draws = drawn(*counts)
    assert pass_hat_k(*counts) == pytest.approx(sum(d == counts[2] for d in draws) / len(draws))


@pytest.mark.parametrize(("n", "c", "k", "at", "hat"), [(4, 1, 2, 0.5, 0.0), (4, 3, 2, 1.0, 0.5), (10, 3, 1, 0.3, 0.3)])
def test_rates_by_hand(n: int, c: int, k: int, at: float, hat: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(at)
    assert pass_hat_k(n, c, k) == pytest.approx(hat)


def test_large_counts_are_exact() -> None:
    assert pass_hat_k(5000, 4999, 1) == pytest.approx(0.9998)
    assert pass_at_k(5000, 1, 2500) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4), (0, 0, 1)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    for rate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="must be between"):
            rate(n, c, k)


@pytest.mark.parametrize(
    ("passed", "attempts", "low", "high"),
    [
        # By hand with z = 1.959964: centre (p + z^2/2n) / (1 + z^2/n), and the half width beside it.
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (5, 10, 0.236593, 0.763407),
        (84, 200, 0.353736, 0.489279),
        (24, 24, 0.862024, 1.0),
    ],
)
def test_wilson_by_hand(passed: int, attempts: int, low: float, high: float) -> None:
    assert wilson(passed, attempts) == pytest.approx((low, high), abs=1e-5)


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.999))
def test_wilson_holds_the_rate_and_stays_in_bounds(counts: tuple[int, int], confidence: float) -> None:
    passed, attempts = counts
    interval = wilson(passed, attempts, confidence)
    assert 0 <= interval.low <= interval.high <= 1
    if attempts:
        assert interval.low <= passed / attempts <= interval.high


def test_wilson_of_nothing_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("passed", "attempts", "confidence"), [(2, 1, 0.95), (-1, 1, 0.95), (1, 2, 1.0), (1, 2, 95)])
def test_wilson_refuses_what_cannot_be(passed: int, attempts: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="must be between"):
        wilson(passed, attempts, confidence)


def test_fishers_exact_test_of_the_lady_tasting_tea() -> None:
    """Fisher's own example (The Design of Experiments, 1935): 3 of 4 cups right on each side gives 34 of 70."""
    assert fisher_exact(3, 1, 1, 3) == pytest.approx(34 / 70, abs=0)
    assert fisher_exact(4, 0, 0, 4) == pytest.approx(2 / 70, abs=0)
    assert fisher_exact(5, 0, 0, 0) == 1.0
    with pytest.raises(ValueError, match="negative"):
        fisher_exact(-1, 0, 0, 0)


@given(st.tuples(*[st.integers(0, 40)] * 4))
def test_fishers_exact_test_agrees_with_scipy(counts: tuple[int, int, int, int]) -> None:
    from scipy.stats import fisher_exact as reference

    wanted = reference([counts[:2], counts[2:]]).pvalue
    assert fisher_exact(*counts) == pytest.approx(wanted, rel=1e-9)
