from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.statistics import estimate_clustering, hierarchical_bootstrap, mean_interval, task_bootstrap, wilson

pytestmark = pytest.mark.newest
COLUMNS = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=5), min_size=2, max_size=6)
UNIT = st.lists(st.floats(0, 1), min_size=2, max_size=30)


def slow_mean_interval(means: list[float], confidence: float) -> tuple[float, float]:
    from scipy import stats

    mean = statistics.fmean(means)
    error = math.sqrt(statistics.variance(means) / len(means))
    n = mean * (1 - mean) / error**2
    t = stats.t.ppf(0.5 + confidence / 2, len(means) - 1)
    centre = (mean + t * t / 2 / n) / (1 + t * t / n)
    half = t * math.sqrt(mean * (1 - mean) / n + t * t / 4 / n / n) / (1 + t * t / n)
    return centre - half, centre + half


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=2, max_size=30), st.sampled_from([0.8, 0.95]))
def test_mean_interval_against_the_written_out_one(means: list[float], confidence: float) -> None:
    if len(set(means)) > 1:
        assert mean_interval(means, confidence) == pytest.approx(slow_mean_interval(means, confidence), abs=1e-9)


@given(UNIT)
def test_mean_interval_holds_the_mean_and_stays_in_bounds(means: list[float]) -> None:
    interval = mean_interval(means)
    assert interval is not None
    assert 0 <= interval.low <= statistics.fmean(means) + 1e-12
    assert statistics.fmean(means) - 1e-12 <= interval.high <= 1


def test_agreement_of_all_tasks_is_no_certainty() -> None:
    interval = mean_interval([1.0] * 24)
    assert interval is not None
    assert interval.high == 1.0
    assert interval.low < wilson(24, 24).low < 0.9


def test_an_effective_number_can_be_capped() -> None:
    means = [0.5, 0.5, 0.5, 0.51]
    free, capped = mean_interval(means), mean_interval(means, most=4)
    assert free is not None
    assert capped is not None
    assert capped.high - capped.low > 10 * (free.high - free.low)


def test_one_task_has_no_spread() -> None:
    assert mean_interval([0.5]) is None
    assert task_bootstrap([0.5]) is None
    assert hierarchical_bootstrap([[0.0, 1.0]]) is None


@pytest.mark.parametrize("means", [[0.5, 1.5], [0.5, -0.1], [0.5, math.nan]])
def test_values_outside_the_unit_interval_are_refused(means: list[float]) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        mean_interval(means)


def test_a_task_without_attempts_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one attempt"):
        hierarchical_bootstrap([[1.0], []])


def quantiles(found: list[float]) -> tuple[float, float]:
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def test_hierarchical_bootstrap_against_the_written_out_one() -> None:
    draw = random.Random(5)
    columns = [[float(draw.random() < 0.4) for _ in range(draw.randint(1, 6))] for _ in range(20)]
    found = []
    for _ in range(4000):
        tasks = [draw.choice(columns) for _ in columns]
        found.append(statistics.fmean(statistics.fmean(draw.choices(task, k=len(task))) for task in tasks))
    assert hierarchical_bootstrap(columns, seed=1) == pytest.approx(quantiles(found), abs=0.02)


def test_task_bootstrap_against_the_written_out_one() -> None:
    draw = random.Random(6)
    means = [draw.random() for _ in range(20)]
    found = [statistics.fmean(draw.choices(means, k=len(means))) for _ in range(4000)]
    assert task_bootstrap(means, seed=1) == pytest.approx(quantiles(found), abs=0.01)


@settings(max_examples=20)
@given(COLUMNS, st.integers(0, 5))
def test_bootstraps_are_decided_by_the_seed(columns: list[list[float]], seed: int) -> None:
    first, again = (hierarchical_bootstrap(columns, seed=seed, replicates=200) for _ in range(2))
    assert first == again
    assert first is not None
    values = [value for column in columns for value in column]
    assert min(values) - 1e-12 <= first.low <= first.high <= max(values) + 1e-12


def test_bootstraps_in_pieces_stay_small() -> None:
    columns = [[float(i % 2)] * 8 for i in range(3000)]
    interval = hierarchical_bootstrap(columns, replicates=300)
    assert interval is not None
    assert 0.48 < interval.low < 0.5 < interval.high < 0.52


@given(COLUMNS)
def test_clustering_against_the_written_out_one(columns: list[list[float]]) -> None:
    k, total = len(columns), sum(map(len, columns))
    grand = sum(map(sum, columns)) / total
    known = estimate_clustering(columns)
    if total <= k:
        assert known == (None, None, None)
        return
    between = sum(len(c) * (statistics.fmean(c) - grand) ** 2 for c in columns) / (k - 1)
    within = sum((v - statistics.fmean(c)) ** 2 for c in columns for v in c) / (total - k)
    typical = (total - sum(len(c) ** 2 for c in columns) / total) / (k - 1)
    if between + (typical - 1) * within > 1e-9:
        least = -1 / (max(map(len, columns)) - 1)
        assert known.icc == pytest.approx(max(least, (between - within) / (between + (typical - 1) * within)))


def test_clustering_by_hand() -> None:
    assert estimate_clustering([[1, 1], [0, 0]]) == pytest.approx((1.0, 2.0, 2.0))
    assert estimate_clustering([[1, 0], [0, 1]]) == pytest.approx((-1.0, 1.0, 4.0))
    assert estimate_clustering([[1, 1], [1, 1]]) == (None, None, None)
    assert estimate_clustering([]) == (None, None, None)


@pytest.mark.parametrize(("tasks", "attempts", "rate"), [(24, 4, 0.3), (24, 4, 0.05), (100, 4, 0.5), (8, 4, 0.3)])
def test_the_interval_to_quote_covers(tasks: int, attempts: int, rate: float) -> None:
    draw = np.random.default_rng(3)
    clustered = independent = 0
    for _ in range(400):
        passed = draw.binomial(attempts, draw.beta(rate * 1.5, (1 - rate) * 1.5, tasks))
        interval = mean_interval(list(passed / attempts), most=tasks * attempts)
        assert interval is not None
        clustered += interval.low <= rate <= interval.high
        independent += (
            wilson(int(passed.sum()), tasks * attempts).low <= rate <= wilson(int(passed.sum()), tasks * attempts).high
        )
    assert clustered >= 0.92 * 400 > independent
