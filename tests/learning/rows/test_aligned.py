"""Rows of one attempt, brought to a fixed number."""

from __future__ import annotations

import pytest

from assay.learning.aligned import align_rows
from assay.learning.rows import check_row
from tests.learning.credit.rows import row

pytestmark = pytest.mark.quick
ROWS = [
    row("a", 2, actor="manager"),
    *(row("a", 1, actor="worker", branch=str(n), cause="sub_agent") for n in range(1, 6)),
]


def test_surplus_rows_of_sub_agents_are_dropped_and_the_first_actor_stays() -> None:
    made = [align_rows(ROWS, 3, f"seed {n}") for n in range(20)]
    assert {len(one) for one in made} == {3}
    assert all(one[0].actor == "manager" for one in made)
    assert {one.branch for several in made for one in several} == {"0", "1", "2", "3", "4", "5"}
    assert {one.attempt_rows for several in made for one in several} == {3}
    assert [one.branch for one in align_rows(ROWS, 3, "x")] == [one.branch for one in align_rows(ROWS, 3, "x")]


def test_missing_rows_are_copies_that_train_nothing() -> None:
    made = align_rows(ROWS[:2], 5, "x")
    assert [int(one.loss_mask.sum()) for one in made] == [4, 2, 0, 0, 0]
    assert {one.attempt_rows for one in made} == {2}
    for one in made:
        check_row(one)


def test_rows_that_fit_stay_as_they_are_and_an_attempt_without_rows_has_none() -> None:
    made = align_rows(ROWS, 6, "x")
    assert [one.branch for one in made] == [one.branch for one in ROWS]
    assert align_rows([], 4, "x") == []
