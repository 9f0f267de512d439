"""A share of `benchmarks/coverage.py`: intervals hold the truth as often as they say, where naive ones do not."""

from __future__ import annotations

import pytest

from benchmarks.coverage import INTERVALS, MAIN, SLOW, WANTED, measured


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(INTERVALS) - SLOW))
def test_coverage_where_attempts_share_a_task(name: str) -> None:
    row = measured(name, MAIN[0], 2000)
    assert WANTED[0] <= row.coverage <= WANTED[1]
    assert row.naive is not None
    assert row.naive < WANTED[0]
