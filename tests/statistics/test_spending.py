"""What attempts use up, grids, flakes and rankings; golden numbers are written out or SciPy's."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.statistics import (
    AttemptOutcome,
    TaskCount,
    amount_interval,
    build_grid,
    estimate_clustering,
    find_flakes,
    pareto_front,
    predictive_validity,
    split_halves,
    summarise_spending,
    task_bootstrap,
    variance_components,
)

pytestmark = pytest.mark.quick
Used = tuple[AttemptOutcome, dict[str, float]]


def used(agent: str, task: str, number: int, status: str, **amounts: float) -> Used:
    return AttemptOutcome(task, agent, None, number, status), amounts  # type: ignore[arg-type]


def test_a_pass_costs_what_all_attempts_cost() -> None:
    rows = [used("a", "x", 0, "pass", usd=1.0), used("a", "x", 1, "fail", usd=2.0), used("a", "y", 0, "error", usd=5.0)]
    (amount,) = summarise_spending(rows, ["usd"])[0].amounts
    assert (amount.total, amount.per_pass, amount.median, amount.most, amount.missing) == (8.0, 8.0, 2.0, 5.0, 0)
    assert amount.mean.value == pytest.approx((1.5 + 5.0) / 2)


def test_an_amount_that_is_not_known_is_no_zero_and_on_no_front() -> None:
    rows = [
        used("cheap", "x", 0, "pass", usd=0.1),
        used("cheap", "y", 0, "pass"),
        used("dear", "x", 0, "pass", usd=9.0),
        used("dear", "y", 0, "fail", usd=9.0),
    ]
    cheap, dear = summarise_spending(rows, ["usd", "tokens"])
    assert [(a.known, a.missing, a.total, a.per_pass, a.on_front) for a in cheap.amounts] == [(1, 1, 0.1, None, False)]
    assert [a.on_front for a in dear.amounts] == [True]


def test_the_front_is_of_rates_and_means() -> None:
    rows = [
        used(agent, f"t{n}", 0, "pass" if n < good else "fail", usd=cost)
        for agent, good, cost in [("a", 2, 1.0), ("b", 1, 1.5), ("c", 4, 3.0)]
        for n in range(5)
    ]
    assert [one.amounts[0].on_front for one in summarise_spending(rows, ["usd"])] == [True, False, True]
    assert pareto_front([(1.0, 0.4), (1.5, 0.2), (3.0, 0.8)]) == (0, 2)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_what_is_no_amount_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        summarise_spending([used("a", "x", 0, "pass", usd=wrong)], ["usd"])


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_the_interval_of_an_amount_is_students_and_not_below_zero(values: list[float]) -> None:
    from scipy import stats

    found = amount_interval(values)
    assert found is not None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    assert found == pytest.approx((max(0.0, np.mean(values) - half), np.mean(values) + half), rel=1e-9, abs=1e-6)


def test_a_grid_has_a_cell_for_what_was_tried() -> None:
    rows = [
        AttemptOutcome(f"t{n}", agent, model, 0, "pass" if n < good else "fail")
        for agent, model, good in CELLS
        for n in T
    ]
    found = build_grid(rows, {"agent": [r.agent for r in rows], "model": [r.model or "-" for r in rows]})
    assert found.levels == (("a", "b"), ("m", "n"))
    assert [(c.levels, c.pass_at_1.value) for c in found.cells] == [((a, m), g / 6) for a, m, g in CELLS]
    assert [c.name for c in found.components] == ["agent", "model", "task", "agent x model", "residual"]
    assert sum(c.share or 0 for c in found.components) == pytest.approx(1.0)  # crossed in full


CELLS = [("a", "m", 3), ("a", "n", 6), ("b", "m", 1), ("b", "n", 2)]
T = range(6)


def test_attempts_that_were_not_judged_explain_nothing() -> None:
    rows = [
        AttemptOutcome("x", "a", None, 0, "pass"),
        AttemptOutcome("x", "a", None, 1, "unknown"),
        AttemptOutcome("y", "a", None, 0, "fail"),
    ]
    found = build_grid(rows, {"agent": ["a"] * 3})
    assert [c.name for c in found.components] == ["task", "residual"]
    assert (found.cells[0].attempts, found.cells[0].pass_at_1.n) == (3, 2)
    assert build_grid([], {"agent": []}).components == ()


def test_a_factor_that_does_not_fit_a_grid_is_refused() -> None:
    rows = [AttemptOutcome("x", "a", None, 0, "pass")]
    for wrong, says in [({"agent": []}, "0 entries for 1"), ({"task": ["x"]}, "is taken")]:
        with pytest.raises(ValueError, match=says):
            build_grid(rows, wrong)


FACTORS = st.lists(
    st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from("pqrs")), min_size=4
)


@given(FACTORS)
def test_shares_against_a_dense_least_squares_fit(rows: list[tuple[bool, str, str, str]]) -> None:
    values = np.array([float(row[0]) for row in rows])
    total = float(((values - values.mean()) ** 2).sum())
    if total < 1e-9:
        return
    dense = [np.array([[row[place] == level for level in "abxyzpqrs"] for row in rows], float) for place in (1, 2, 3)]

    def left(*places: int) -> float:
        design = np.hstack([np.ones((len(rows), 1)), *(dense[place] for place in places)])
        return float(((values - design @ np.linalg.lstsq(design, values, rcond=None)[0]) ** 2).sum())

    found = variance_components(values.tolist(), {str(place): [row[place] for row in rows] for place in (1, 2, 3)})
    wanted = [left(1, 2), left(0, 2), left(0, 1)]
    got = [(c.share or 0) * total for c in found]
    assert got == pytest.approx([*(w - left(0, 1, 2) for w in wanted), left(0, 1, 2)], abs=1e-6)


def test_a_thousand_tasks_are_explained_quickly() -> None:
    draw = np.random.default_rng(0)
    tasks = [f"t{n}" for n in range(1000) for _ in range(20)]
    agents = ["ab"[n % 2] for n in range(20_000)]
    hard = np.repeat(draw.random(1000), 20)
    found = variance_components((draw.random(20_000) < hard).astype(float).tolist(), {"agent": agents, "task": tasks})
    assert found[1].share == pytest.approx(0.33 + 0.67 * 999 / 20_000, abs=0.03)


def test_the_verifiers_own_flakes_come_first() -> None:
    counts = [TaskCount("a", None, task, p, 4 - p, 0, 0) for task, p in [("x", 1), ("y", 2), ("z", 4), ("w", 0)]]
    found = find_flakes(counts, {("a", None, "z"): 2})
    assert [(f.task, f.passed, f.verifier) for f in found] == [("z", 4, 2), ("y", 2, 0), ("x", 1, 0)]


def test_a_ranking_that_holds_and_one_that_does_not() -> None:
    level = {"a": 0, "b": 1, "c": 2, "d": 3}
    counts = [TaskCount(who, None, f"t{n}", n_of, 4 - n_of, 0, 0) for who, n_of in level.items() for n in range(6)]
    turned = [TaskCount(who, None, f"u{n}", 3 - n_of, 1 + n_of, 0, 0) for who, n_of in level.items() for n in range(6)]
    assert predictive_validity(*split_halves(counts)).value == pytest.approx(1.0)
    assert predictive_validity(counts, turned).value == pytest.approx(-1.0)
    assert predictive_validity(counts[:12], turned[:12]).value is None


@pytest.fixture(scope="module")
def airline(shared_data: Path) -> list[list[float]]:
    runs = json.loads((shared_data / "tau-bench" / "gpt-4o-airline-tasks-00-24.json").read_text())
    by_task: dict[int, list[float]] = {}
    for run in runs:
        by_task.setdefault(run["task_id"], []).append(float(run["reward"] == 1))
    return [by_task[task] for task in sorted(by_task)]


def test_the_correlation_of_published_runs_is_that_of_scipys_analysis_of_variance(airline: list[list[float]]) -> None:
    from scipy import stats

    f = float(stats.f_oneway(*airline).statistic)
    assert estimate_clustering(airline).icc == pytest.approx((f - 1) / (f - 1 + 4))
    assert estimate_clustering(airline).icc == pytest.approx(0.46768, abs=1e-5)


def test_the_bootstrap_of_published_runs_is_scipys(airline: list[list[float]]) -> None:
    from scipy import stats

    means = [sum(column) / len(column) for column in airline]
    theirs = stats.bootstrap(
        (means,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1), batch=1000
    ).confidence_interval
    ours = task_bootstrap(means, replicates=20_000)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.011)  # the mean moves in steps of 0.01
