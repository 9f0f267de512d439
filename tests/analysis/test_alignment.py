"""Longest common subsequences, against a recursive definition."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.alignment import align, common_length, equal_rows, lcs_ratio
from assay.analysis.coverage import cover
from assay.analysis.states import State

words = st.text(alphabet="abc", max_size=9)


@cache
def slow_common(first: str, second: str) -> int:
    if not first or not second:
        return 0
    if first[0] == second[0]:
        return 1 + slow_common(first[1:], second[1:])
    return max(slow_common(first[1:], second), slow_common(first, second[1:]))


@given(words, words)
def test_lengths_are_those_of_the_definition(first: str, second: str) -> None:
    assert common_length(equal_rows(first, second)) == slow_common(first, second)


@given(words, words)
def test_an_alignment_is_a_longest_common_subsequence(first: str, second: str) -> None:
    pairs = align(np.array([*equal_rows(first, second)], dtype=bool).reshape(len(first), len(second)))
    assert len(pairs) == slow_common(first, second)
    assert all(first[pair.left] == second[pair.right] for pair in pairs)
    for side in (0, 1):
        positions = [pair[side] for pair in pairs]
        assert positions == sorted(set(positions))


@given(st.integers(0, 6), st.integers(0, 6), st.randoms(use_true_random=False))
def test_any_relation_can_be_aligned(rows: int, columns: int, draw: object) -> None:
    matches = np.array([[draw.random() < 0.4 for _ in range(columns)] for _ in range(rows)], dtype=bool)  # type: ignore[attr-defined]
    matches = matches.reshape(rows, columns)
    pairs = align(matches)
    assert len(pairs) == common_length(matches)
    assert all(matches[pair] for pair in pairs)


def test_ratio_by_hand() -> None:
    assert lcs_ratio("abcbdab", "bdcaba") == pytest.approx(4 / 7)
    assert lcs_ratio("", "") == 1.0


def test_what_matches_nothing_does_not_end_the_match() -> None:
    # The published greedy scan stops at the first state of the path that nothing matches: here at `x`, with one match.
    path = [State("explore", "read", "read", name) for name in "axbc"]
    attempt = [State("explore", "read", "read", name) for name in "abc"]
    covered = cover(attempt, [path])
    assert (covered.coverage, covered.precision) == (0.75, 1.0)
    assert covered.f1 == pytest.approx(6 / 7)


def test_the_path_covered_best_counts_and_of_several_the_longest() -> None:
    a, b = State("explore", "read", "read", "a"), State("implement", "edit", "edit", "b")
    covered = cover([a, b], [[a], [a, b], [b]])
    assert (covered.path, covered.coverage, covered.completeness) == (1, 1.0, 1.0)


def test_there_is_no_coverage_of_nothing() -> None:
    with pytest.raises(ValueError, match="needs a reference path"):
        cover([], [])


def test_what_is_too_long_to_align_is_refused() -> None:
    with pytest.raises(ValueError, match="too long to align"):
        align(np.zeros((6000, 6000), dtype=bool))
