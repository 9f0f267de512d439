"""Spectra against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from assay.code.spectra import FORMULAS, CoverageRun, Line, covering_tests, dstar, ochiai, rank, rank_of, tarantula

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
    assert ochiai(2, 0, 0, 2) == 1.0
    assert ochiai(1, 1, 1, 1) == pytest.approx(1 / 2)  # 1 / sqrt(2 * 2)
    assert ochiai(2, 0, 2, 0) == pytest.approx(2 / math.sqrt(8))
    assert ochiai(0, 0, 0, 0) == 0.0


def test_tarantula_by_hand() -> None:
    assert tarantula(1, 1, 1, 1) == pytest.approx(0.5)  # 0.5 / (0.5 + 0.5)
    assert tarantula(2, 0, 1, 3) == pytest.approx(0.8)  # 1 / (1 + 0.25)
    assert tarantula(0, 2, 0, 2) == 0.0


def test_dstar_by_hand() -> None:
    assert dstar(2, 1, 1, 5) == pytest.approx(2.0)  # 4 / (1 + 1)
    assert dstar(2, 0, 0, 2) == math.inf
    assert dstar(0, 0, 0, 2) == 0.0


def test_rank_puts_the_line_that_only_failing_tests_ran_first() -> None:
    ranked = rank(RUNS)
    assert [s.line.line for s in ranked] == [3, 1, 2]
    assert [s.score for s in ranked] == pytest.approx([1.0, 2 / math.sqrt(2 * 4), 1 / math.sqrt(2 * 2)])


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_every_formula_agrees_on_the_plain_case(name: str) -> None:
    assert rank(RUNS, FORMULAS[name])[0].line == line(3)


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
