"""Which difficulty comes next."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.rollout.schedule.allocation import TaskHistory
from assay.rollout.schedule.curriculum import (
    Bandit,
    BanditOptions,
    Frontier,
    FrontierOptions,
    History,
    LevelOutcomes,
    bandit,
    frontier,
    history_of,
    progress,
)

pytestmark = pytest.mark.quick
cells = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda c: LevelOutcomes(float(min(c)), max(c)))
histories = st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6)


@pytest.mark.parametrize("teacher", [frontier, progress, bandit])
@settings(max_examples=30)
@given(history=histories)
def test_shares_are_shares(teacher: object, history: History) -> None:
    shares = teacher(history, 3)  # type: ignore[operator]
    assert math.fsum(shares) == pytest.approx(1.0)
    assert min(shares) >= 0.0
    if teacher is not frontier:
        assert min(shares) >= 0.2 / 3 - 1e-12


def seen(*rates: float, attempts: int = 16) -> list[LevelOutcomes]:
    return [LevelOutcomes(rate * attempts, attempts) for rate in rates]


def test_the_frontier_moves_up_and_comes_back() -> None:
    assert frontier([], 3).index(0.6) == 0
    assert frontier([seen(0.8, 0.2, 0.0)], 3).index(0.6) == 1
    assert frontier([seen(0.8, 0.9, 0.1)], 3).index(0.6) == 2
    assert frontier([seen(0.8, 0.9, 0.1), seen(0.3, 0.9, 0.2)], 3).index(0.6) == 0
    assert frontier([seen(1.0, 1.0, 1.0)], 3).index(0.6) == 2


def test_a_level_is_not_mastered_on_few_attempts() -> None:
    assert frontier([seen(1.0, 0.0, 0.0, attempts=15)], 3).index(0.6) == 0


def test_learning_progress_prefers_what_moves() -> None:
    # By hand: after rates 0 then 1, fast = 0.5, slow = 0.1; the others did not move.
    shares = progress([seen(0.0, 0.5, 1.0), seen(1.0, 0.5, 1.0)], 3)
    assert shares == pytest.approx((0.2 / 3 + 0.8, 0.2 / 3, 0.2 / 3))


def test_forgetting_is_progress_too() -> None:
    up, down = progress([seen(0.0, 1.0), seen(1.0, 0.0)], 2)
    assert up == pytest.approx(down)


def test_a_level_never_tried_is_tried() -> None:
    history = [[LevelOutcomes(0.0, 16), LevelOutcomes(0.0, 0)], [LevelOutcomes(4.0, 16), LevelOutcomes(0.0, 0)]]
    assert progress(history, 2) == pytest.approx((0.5, 0.5))


def test_the_bandit_goes_where_rates_move_and_forgets() -> None:
    moving = [seen(rate, 0.5) for rate in (0.0, 0.3, 0.6, 0.9)]
    first = bandit(moving, 2)
    later = bandit([*moving, *[seen(0.9, 0.5)] * 20], 2)
    assert first[0] > 0.6
    assert abs(later[0] - 0.5) < abs(first[0] - 0.5)


def test_history_is_by_round_and_level() -> None:
    tasks = [TaskHistory((1.0, None, 0.0), (0, 0, 1), 0), TaskHistory((1.0,), (1,), 1)]
    assert history_of(tasks) == [
        [LevelOutcomes(1.0, 1), LevelOutcomes(0.0, 0)],
        [LevelOutcomes(0.0, 1), LevelOutcomes(1.0, 1)],
    ]


def test_whole_groups_go_to_tasks_of_the_chosen_level() -> None:
    easy, hard = TaskHistory((1.0,) * 16, (0,) * 16, 0), TaskHistory(level=1)
    grants = Frontier(FrontierOptions(group=8, step=4)).grants([easy, hard, TaskHistory(level=1)], 64)
    of = {grant.task: grant.attempts for grant in grants}
    assert sum(of.values()) == 64
    assert all(number % 8 == 0 for number in of.values())
    assert of[1] + of[2] >= 32  # the frontier is the second level


def test_a_budget_smaller_than_a_group_is_spent() -> None:
    (grant,) = Bandit(BanditOptions()).grants([TaskHistory(level=0), TaskHistory(level=1)], 3)
    assert grant.attempts == 3
