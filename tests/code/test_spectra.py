"""Spectra against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from assay.code.spectra import CoverageRun, Line, covering_tests, ochiai, rank, rank_of

pytestmark = pytest.mark.quick


def line(number: int) -> Line:
    return Line("m.py", number)


RUNS = (
    CoverageRun("t1", True, frozenset({line(1), line(2), line(3)})),
    CoverageRun("t2", True, frozenset({line(1), line(3)})),
    CoverageRun("t3", False, frozenset({line(1), line(2)})),
    CoverageRun("t4", False, frozenset({line(1)})),
)


def test_ochiai_by_hand() -> None:
    assert ochiai(2, 0, 0) == 1.0
    assert ochiai(1, 1, 1) == pytest.approx(1 / 2)  # 1 / sqrt(2 * 2)
    assert ochiai(2, 0, 2) == pytest.approx(2 / math.sqrt(8))
    assert ochiai(0, 0, 0) == 0.0


def test_rank_puts_the_line_that_only_failing_tests_ran_first() -> None:
    ranked = rank(RUNS)
    assert [s.line.line for s in ranked] == [3, 1, 2]
    assert [s.score for s in ranked] == pytest.approx([1.0, 2 / math.sqrt(2 * 4), 1 / math.sqrt(2 * 2)])


def test_lines_without_failing_tests_are_not_ranked() -> None:
    assert rank([CoverageRun("t", False, frozenset({line(1)}))]) == ()


def test_tied_lines_share_their_mean_rank() -> None:
    ranked = rank([CoverageRun("t", True, frozenset({line(1), line(2), line(3)}))])
    assert rank_of(ranked, [line(2)]) == 2.0
    assert rank_of(ranked, [line(9)]) is None
    assert rank_of(rank(RUNS), [line(1), line(2)]) == 2.0


def test_functions_map_to_the_tests_that_ran_their_body() -> None:
    found = covering_tests(RUNS, {"f": ("m.py", 2, 3), "g": ("m.py", 7, 9), "h": ("n.py", 1, 1)})
    assert found == {"f": ("t1", "t2", "t3"), "g": (), "h": ()}
