"""Scores of routers on labelled steps, against values computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.step_routing import SufficientTier, cheapest_sufficient, score_router, score_routers

pytestmark = pytest.mark.quick
COSTS = {"weak": 1.0, "mid": 4.0, "strong": 20.0}
LABELS = [SufficientTier("a", 0), SufficientTier("a", 1), SufficientTier("b", 2), SufficientTier("b", 1)]


def test_the_cheapest_tier_whose_judged_tries_pass_suffices() -> None:
    assert cheapest_sufficient([(3, 4), (4, 4), (4, 4)], 1.0) == 1
    assert cheapest_sufficient([(3, 4), (4, 4)], 0.75) == 0
    assert cheapest_sufficient([(3, 4), (3, 4)], 1.0) is None
    assert cheapest_sufficient([(0, 0), (4, 4)], 1.0) is None  # the cheaper one is not known to fail
    assert cheapest_sufficient([], 0.5) is None


def test_a_router_is_scored_by_hand() -> None:
    found = score_router("r", [0, 0, 2, 2], LABELS, list(COSTS.values()))
    assert (found.right, found.under, found.over) == (0.5, 0.25, 0.25)
    assert found.cost == (1 + 1 + 20 + 20) / 4
    assert found.cascade_cost == (1 + (1 + 4) + 20 + 20) / 4
    assert found.saved == pytest.approx(1 - 11.5 / 20)
    assert found.low is not None
    assert found.low < 0.5 < (found.high or 0)  # each task has one right of two


def test_the_interval_is_of_the_mean_over_tasks_of_unequal_length() -> None:
    labels = [*[SufficientTier("long", 0)] * 18, SufficientTier("short", 1), SufficientTier("brief", 1)]
    found = score_router("r", [0] * 20, labels, list(COSTS.values()))
    assert (found.right, found.right_of_tasks) == (0.9, pytest.approx(1 / 3))
    assert found.low is not None
    assert found.low <= found.right_of_tasks <= (found.high or 0)


def test_the_baselines_are_each_tier_and_the_labels() -> None:
    found = {one.router: one for one in score_routers({}, LABELS, COSTS)}
    assert list(found) == ["always weak", "always mid", "always strong", "the labels"]
    assert [one.right for one in found.values()] == [0.25, 0.5, 0.25, 1.0]
    assert (found["always strong"].cost, found["always strong"].saved) == (20, 0)
    assert found["always weak"].cascade_cost == (1 + 5 + 25 + 5) / 4
    assert found["the labels"].cost == found["the labels"].cascade_cost == (1 + 4 + 20 + 4) / 4


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_shares_sum_to_one_and_the_labels_cost_least(pairs: list[tuple[int, int]]) -> None:
    labels = [SufficientTier(str(number % 3), label) for number, (_, label) in enumerate(pairs)]
    scores = score_routers({"r": [chosen for chosen, _ in pairs]}, labels, COSTS)
    assert all(one.right + one.under + one.over == pytest.approx(1) for one in scores)
    assert all(one.cost <= one.cascade_cost + 1e-9 for one in scores)
    assert min(one.cascade_cost for one in scores) == pytest.approx(scores[-1].cost)


def test_a_score_without_steps_or_with_costs_that_do_not_rise_is_refused() -> None:
    with pytest.raises(ValueError, match="labelled steps"):
        score_router("r", [], [], [1.0, 2.0])
    with pytest.raises(ValueError, match="rise"):
        score_router("r", [0], LABELS[:1], [2.0, 1.0])
