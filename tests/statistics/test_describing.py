"""Tasks, factors, scores, rankings, robustness and survival; golden numbers are SciPy's and statsmodels 0.14's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.statistics import (
    TaskCount,
    area_under_curve,
    blind_replay_line,
    calibration_error,
    cell_agreement,
    measure_robustness,
    outcome_consistency,
    pareto_front,
    profile_tasks,
    rank_agreement,
    report_card,
    survival_curve,
    variance_components,
)

pytestmark = pytest.mark.quick
SCORED = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40)


def count(agent: str, task: str, passed: int, failed: int) -> TaskCount:
    return TaskCount(agent, None, task, passed, failed, 0, 0)


def test_bands_and_contrast_of_tasks() -> None:
    found = profile_tasks([count("a", "x", 0, 4), count("a", "y", 4, 0), count("a", "z", 1, 3), count("b", "z", 1, 7)])
    assert [(p.task, p.band, p.mixed) for p in found] == [("x", "never", 0), ("y", "always", 0), ("z", "hard", 2)]
    assert found[2].rate == pytest.approx(2 / 12)
    assert found[2].contrast == pytest.approx((0.25 * 0.75 + 0.125 * 0.875) / 2)


def test_a_task_that_good_agents_fail_has_negative_discrimination() -> None:
    strength = {"a": 0, "b": 1, "c": 2, "d": 3}
    counts = [
        count(who, f"t{n}", int(level > n // 2), 1 - int(level > n // 2))
        for who, level in strength.items()
        for n in range(6)
    ]
    odd = [count(who, "odd", int(level < 2), 1 - int(level < 2)) for who, level in strength.items()]
    found = {p.task: p.discrimination for p in profile_tasks([*counts, *odd])}
    assert found["odd"] is not None
    assert found["t2"] is not None
    assert found["odd"] < 0 < found["t2"]


def test_discrimination_needs_three_configurations() -> None:
    assert {p.discrimination for p in profile_tasks([count("a", "x", 1, 1), count("b", "x", 0, 2)])} == {None}


def test_shares_of_factors_against_a_type_two_analysis_of_variance() -> None:
    values = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1]
    cells = list(itertools.product("ab", "xy", "pqr", range(2)))[:-3]
    factors = {name: [cell[n] for cell in cells] for n, name in enumerate(("harness", "model", "task"))}
    found = {c.name: c.share for c in variance_components(values[:-3], factors, interaction=("harness", "model"))}
    wanted = {"harness": 0.00043015536, "model": 0.03344902329, "task": 0.18295111972}
    assert found == pytest.approx({**wanted, "harness x model": 0.00069085558, "residual": 0.78858024691}, abs=1e-9)


def test_one_factor_that_decides_everything() -> None:
    found = variance_components([1, 1, 0, 0], {"model": ["good", "good", "bad", "bad"]})
    assert (found[0].share, found[0].effects) == (pytest.approx(1.0), {"bad": -0.5, "good": 0.5})
    assert variance_components([1.0, 1.0], {"model": ["a", "b"]})[0].share is None


def test_factors_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 entries for 1 values"):
        variance_components([1.0], {"model": ["a", "b"]})
    with pytest.raises(ValueError, match="'size'"):
        variance_components([1.0], {"model": ["a"]}, interaction=("model", "size"))


@given(SCORED)
def test_the_area_is_the_share_of_pairs_in_order(rows: list[tuple[float, bool]]) -> None:
    good, bad = [s for s, passed in rows if passed], [s for s, passed in rows if not passed]
    found = area_under_curve([s for s, _ in rows], [passed for _, passed in rows])
    if not good or not bad:
        assert found is None
    else:
        pairs = [1.0 if g > b else 0.5 if g == b else 0.0 for g in good for b in bad]
        assert found == pytest.approx(sum(pairs) / len(pairs))


def test_calibration_by_hand() -> None:
    error, bins = calibration_error([0.05, 0.05, 0.95, 0.95], [False, True, True, True])
    assert error == pytest.approx(0.5 * 0.45 + 0.5 * 0.05)
    assert [(b.count, b.rate) for b in bins] == [(2, 0.5), (2, 1.0)]


def test_a_score_that_ranks_and_selects() -> None:
    card = report_card([0.9, 0.1, 0.5, 0.5], [True, False, True, False], ["a", "a", "b", "b"])
    assert (card.auc, card.selected, card.at_random, card.at_best) == (1.0 - 0.125, 0.75, 0.5, 1.0)
    with pytest.raises(ValueError, match="score is in"):
        report_card([1.5], [True], ["a"])


def test_a_ranking_against_another() -> None:
    from scipy import stats

    draw = np.random.default_rng(0)
    rates = {f"m{n}": n / 10 for n in range(8)}
    sides = [{name: (draw.random(200) < rate).astype(float).tolist() for name, rate in rates.items()} for _ in range(2)]
    found = rank_agreement(*sides)
    means = [[float(np.mean(side[name])) for name in sorted(rates)] for side in sides]
    assert found.value is not None
    assert found.value == pytest.approx(float(stats.spearmanr(*means).statistic))
    assert found.interval is not None
    assert 0.7 < found.interval.low <= found.value <= found.interval.high
    assert rank_agreement({"a": [1.0]}, {"a": [1.0]}).value is None
    hundredfold = [{name: [100 * value for value in row] for name, row in side.items()} for side in sides]
    assert rank_agreement(*hundredfold).interval == pytest.approx(found.interval)


def test_a_ranking_of_mere_noise_agrees_with_nothing() -> None:
    draw = np.random.default_rng(0)
    sides = [{f"m{n}": (draw.random(12) < 0.5).astype(float).tolist() for n in range(6)} for _ in range(2)]
    found = rank_agreement(*sides).interval
    assert found is not None
    assert found.low < -0.5 < 0.5 < found.high
    alone = [{name: row[:1] for name, row in side.items()} for side in sides]
    assert rank_agreement(*alone).interval is None


def test_consistency_of_outcomes() -> None:
    found = outcome_consistency([count("a", "x", 4, 0), count("a", "y", 2, 2), count("a", "z", 1, 0)])
    assert (found.value, found.n_tasks) == (pytest.approx((1 - 1 / 3) / 2), 2)
    assert outcome_consistency([count("a", "x", 1, 0)]).value is None


def test_robustness_is_over_the_tasks_of_both() -> None:
    plain = [count("a", f"t{n}", 4, 0) for n in range(10)]
    hurt = [count("a", f"t{n}", 2 if n < 5 else 4, 2 if n < 5 else 0) for n in range(10)]
    found = measure_robustness(plain, hurt)
    assert found.ratio == pytest.approx(0.75)
    assert found.ratio_interval is not None
    assert found.ratio_interval.low < 0.75 < found.ratio_interval.high
    assert len(found.delta.lost) == 5
    assert measure_robustness([count("a", "x", 0, 2)], hurt[:1]).ratio is None


def test_the_line_of_a_blind_replay_is_the_sources_pass_at_k() -> None:
    assert blind_replay_line([count("a", "x", 1, 3), count("a", "y", 0, 4)], 4) == 0.5
    assert blind_replay_line([count("a", "x", 1, 0)], 2) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    front = set(pareto_front([(float(c), float(v)) for c, v in points]))
    for n, (cost, value) in enumerate(points):
        beaten = any((c <= cost and v >= value) and (c, v) != (cost, value) for c, v in points)
        assert (n in front) == (not beaten)


def test_what_is_not_known_is_on_no_front() -> None:
    assert pareto_front([(None, 1.0), (1.0, None), (2.0, 0.5)]) == (2,)


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=30))
def test_survival_against_scipy(rows: list[tuple[int, bool]]) -> None:
    from scipy import stats

    lengths, solved = [float(at) for at, _ in rows], [passed for _, passed in rows]
    done = [at for at, passed in rows if passed]
    if done:
        given_data = stats.CensoredData(uncensored=done, right=[at for at, passed in rows if not passed])
        curve = stats.ecdf(given_data).sf
        known = dict(zip(curve.quantiles.tolist(), curve.probabilities.tolist(), strict=True))
        for point in survival_curve(lengths, solved)[1:]:
            assert point.share == pytest.approx(known[point.at])
    else:
        assert [p.share for p in survival_curve(lengths, solved)] == [1.0]


def test_two_measures_of_the_same_tasks_share_their_noise() -> None:
    draw = np.random.default_rng(2)
    hard = draw.random(40)  # a task that is hard is hard for all, by both measures
    made = {
        f"m{n}": [
            [float(h < n / 8), float(h < n / 8) if draw.random() < 0.9 else float(draw.random() < 0.5)] for h in hard
        ]
        for n in range(8)
    }
    sides = [{name: [cell[side] for cell in cells] for name, cells in made.items()} for side in range(2)]
    paired, apart = rank_agreement(*sides, paired=True), rank_agreement(*sides)
    assert paired.value == apart.value
    assert paired.interval is not None
    assert paired.interval.low > 0.8
    with pytest.raises(ValueError, match="same tasks"):
        rank_agreement(sides[0], {name: row[:9] for name, row in sides[1].items()}, paired=True)


def test_cells_agree_as_all_their_values_do() -> None:
    from scipy import stats

    draw = np.random.default_rng(1)
    one = {f"m{n}": draw.random(30).tolist() for n in range(4)}
    other = {name: [value + 0.3 * draw.random() for value in row] for name, row in one.items()}
    found = cell_agreement(one, other)
    flat = [[value for name in sorted(side) for value in side[name]] for side in (one, other)]
    assert found.value == pytest.approx(float(stats.spearmanr(*flat).statistic))
    assert found.interval is not None
    assert 0.8 < found.interval.low < found.value < found.interval.high < 1.0
    assert cell_agreement({"a": [1.0, 1.0]}, {"a": [0.0, 1.0]}).value is None
    assert cell_agreement({"a": [1.0], "b": [0.0]}, {"a": [1.0], "b": [0.5]}).interval is None
    with pytest.raises(ValueError, match="same configurations"):
        cell_agreement({"a": [1.0]}, {"b": [1.0]})


def test_few_configurations_that_agree_nearly_have_an_interval() -> None:
    """With three configurations some drawn covariances are so uneven that rounding makes them indefinite."""
    inside = {"a": [1.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 0.0]}
    outside = {"a": [0.5, 0.9], "b": [0.0, 0.9], "c": [0.0, 0.0]}
    for seed in range(380, 400):
        found = rank_agreement(inside, outside, seed=seed)
        assert found.value == 1.0
        assert found.interval is not None
