"""The group-sequential permutation test against all assignments of counts to arms, written out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.statistics import SequentialTest, score_tasks, sign_test, spending_function

COUNTS = st.integers(0, 3)


def score(rows: Sequence[Sequence[int]]) -> float:
    """Returns the statistic (treatment first), by the definition."""
    found = 0.0
    for treatment, *controls in rows:
        for control in controls:
            rate = (treatment + control + 1) / 8
            found += min(16, round(1 / (rate * (1 - rate)))) * (treatment - control)
    return found


def arrangements(rows: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
    return [list(one) for one in itertools.product(*(itertools.permutations(row) for row in rows))]


@settings(max_examples=40)
@given(st.integers(2, 3), st.data())
def test_p_value_is_the_share_of_assignments(arms: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*[COUNTS] * arms), min_size=1, max_size=4))
    columns = list(zip(*rows, strict=True))
    look = SequentialTest(0.05, len(rows)).look(score_tasks(columns[0], columns[1:], 3))
    sums = [score(one) for one in arrangements(rows)]
    observed = score(rows)
    assert look.p_value == pytest.approx(sum(one >= observed for one in sums) / len(sums))


@settings(max_examples=15)
@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=4, max_size=8), st.sampled_from([0.03, 0.2, 0.5]))
def test_chance_to_cross_at_any_look_is_the_level_spent(rows: list[tuple[int, int]], level: float) -> None:
    crossed, spent = 0, set[float]()
    every = list(itertools.product(*[(row, row[::-1]) for row in rows]))
    for one in every:
        test = SequentialTest(level, len(rows))
        looks = [test.look(score_tasks(*zip_columns(part), 3)) for part in (one[:2], one[2:3], one[3:])]
        crossed += looks[-1].crossed
        spent.add(round(looks[-1].spent, 12))
    assert crossed / len(every) == pytest.approx(spent.pop())
    assert not spent
    assert crossed / len(every) <= level + 1e-9


def zip_columns(rows: Sequence[tuple[int, int]]) -> tuple[list[int], list[list[int]]]:
    return [row[0] for row in rows], [[row[1] for row in rows]]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30))
def test_one_attempt_and_one_control_is_the_sign_test(rows: list[tuple[int, int]]) -> None:
    look = SequentialTest(0.05, len(rows)).look(score_tasks(*zip_columns(rows), 1))
    gained, lost = sum(a > b for a, b in rows), sum(a < b for a, b in rows)
    assert look.p_value == pytest.approx(sign_test(gained, lost, "gain"))


def test_attempts_that_agree_within_a_task_count_once() -> None:
    once = SequentialTest(0.05, 4).look(score_tasks([1, 1, 1, 0], [[0, 0, 0, 0]], 1))
    often = SequentialTest(0.05, 4).look(score_tasks([8, 8, 8, 0], [[0, 0, 0, 0]], 8))
    assert once.p_value == often.p_value == 1 / 8


def test_spending_of_lan_and_demets_by_hand() -> None:
    assert spending_function(0.05, 0.5) == pytest.approx(0.00557, abs=1e-5)
    assert spending_function(0.05, 1) == 0.05
    with pytest.raises(ValueError, match="fraction"):
        spending_function(0.05, 1.5)


def test_more_tasks_than_planned_and_uneven_arms_are_refused() -> None:
    test = SequentialTest(0.05, 1)
    with pytest.raises(ValueError, match="planned"):
        test.look(score_tasks([1, 1], [[0, 0]], 1))
    with pytest.raises(ValueError, match="one count"):
        score_tasks([1, 1], [[0]], 1)
    with pytest.raises(ValueError, match="between 0"):
        score_tasks([2], [[0]], 1)
    with pytest.raises(ValueError, match="level"):
        SequentialTest(0.0, 1)
