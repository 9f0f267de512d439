"""Searchers of letters: coverage and duplication of small teams, and the bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.settings import Settings
from experiments.searchers import BUDGETS, SIZES, WAYS, Cell, make_bars, make_table, measure

pytestmark = pytest.mark.newest


@pytest.mark.parametrize("way", WAYS)
async def test_with_letters_enough_every_team_finds_all_and_answers(way: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(Settings.from_environment(), store=tmp_path)
    for size in (1, 3):
        found = await measure(size, way, 200, 1, settings, n=3)
        assert [(one.coverage, one.passed) for one in found] == [(1.0, 1.0)] * 3
    if way == "led":
        assert sum(one.repeated for one in found) == 0  # a town is given to one searcher at a time


async def test_the_letters_are_a_limit_of_all_together(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(Settings.from_environment(), store=tmp_path)
    found = await measure(4, "alone", 6, 1, settings, n=4)
    assert {one.reads for one in found} == {6}
    assert all(one.coverage < 1 for one in found)


def test_tables_have_a_row_for_each_team_and_bars_compare_eight_with_one() -> None:
    def cells(coverage: float) -> list[list[Cell]]:
        return [[Cell(coverage, 4, 1, 0.0, 15, 40)] * 3] * 2

    made: Any = {
        (budget, way, size): cells(0.9 if size == 8 and way == "led" else 0.5)
        for budget in BUDGETS
        for way in WAYS
        for size in SIZES
    }
    table = make_table(made, next(iter(BUDGETS)))
    assert len(table.rows) == len(WAYS) * len(SIZES)
    assert table.rows[-1][0] == "led, 8"
    assert table.rows[-1][2].startswith("+0.400")
    assert table.rows[0][2] == "-"
    assert [bar.met for bar in make_bars(made)] == [True, False]
