"""The interval of a median: against a written-out binomial, and by its coverage."""

from __future__ import annotations

import math
import random

import pytest

from assay.statistics import median_interval

pytestmark = pytest.mark.quick


def test_hand_computed() -> None:
    # n = 10: P(at most 1 of 10 below) = 11/1024 = 0.0107, of 2: 0.0547; so the 2nd and the 9th value hold 97.9%.
    assert median_interval([float(n) for n in range(1, 11)]) == (2.0, 9.0)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_sample_too_small_for_any_interval_has_none(n: int) -> None:
    assert median_interval([1.0] * n) is None


def test_six_values_give_their_ends() -> None:
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)


@pytest.mark.parametrize("n", [6, 9, 17, 40])
def test_the_interval_is_the_narrowest_that_the_binomial_allows(n: int) -> None:
    found = median_interval([float(i) for i in range(1, n + 1)])
    assert found is not None
    k = int(found.low)
    assert sum(math.comb(n, i) for i in range(k)) / 2**n <= 0.025 < sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    assert found.high == n + 1 - k


def test_it_covers_the_median_as_often_as_it_says() -> None:
    draw = random.Random(5)
    samples = [[draw.expovariate(1.0) for _ in range(25)] for _ in range(2000)]
    held = sum((i := median_interval(s)) is not None and i.low <= math.log(2) <= i.high for s in samples)
    assert held / 2000 >= 0.95


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="is NaN"):
        median_interval([1.0, math.nan])
