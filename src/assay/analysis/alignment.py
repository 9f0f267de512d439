"""Longest common subsequences, and which elements of two sequences belong together.

Source: Wagner and Fischer (1974), a table of n x m. Unlike a greedy scan, an element that matches nothing costs
nothing but itself: what comes after it can still be matched.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pair", "align", "common_length", "equal_pairs", "lcs_ratio", "levenshtein"]


class Pair(NamedTuple):
    """Positions in the two sequences."""

    left: int
    right: int


def equal_pairs(left: Sequence[Hashable], right: Sequence[Hashable]) -> NDArray[np.bool_]:
    """Which elements are equal, of shape (len(left), len(right))."""
    codes: dict[Hashable, int] = {}
    first = np.array([codes.setdefault(each, len(codes)) for each in left], dtype=np.int64)
    second = np.array([codes.setdefault(each, len(codes)) for each in right], dtype=np.int64)
    return np.asarray(first[:, None] == second[None, :])


def _table(matches: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Lengths of the longest common subsequence of every two prefixes, of shape (n + 1, m + 1)."""
    table = np.zeros((matches.shape[0] + 1, matches.shape[1] + 1), dtype=np.int32)
    for row in range(matches.shape[0]):
        best = np.maximum(table[row, 1:], table[row, :-1] + matches[row])
        table[row + 1, 1:] = np.maximum.accumulate(best)
    return table


def common_length(matches: NDArray[np.bool_]) -> int:
    """Length of the longest common subsequence of two sequences whose elements match as `matches` (n, m) says."""
    return int(_table(matches)[-1, -1])


def align(matches: NDArray[np.bool_]) -> tuple[Pair, ...]:
    """The pairs of one longest common subsequence, in order; of several, the one that matches late in neither."""
    # The table of the reversed sequences gives, at each place, what is still to be had from there on.
    ahead = _table(matches[::-1, ::-1])[::-1, ::-1]
    found: list[Pair] = []
    left = right = 0
    while left < matches.shape[0] and right < matches.shape[1] and ahead[left, right]:
        if matches[left, right] and ahead[left, right] == ahead[left + 1, right + 1] + 1:
            found.append(Pair(left, right))
            left, right = left + 1, right + 1
        elif ahead[left + 1, right] >= ahead[left, right + 1]:
            left += 1
        else:
            right += 1
    return tuple(found)


def lcs_ratio(left: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """Longest common subsequence over the longer length, in [0, 1]; 1 for two empty sequences."""
    longest = max(len(left), len(right))
    return common_length(equal_pairs(left, right)) / longest if longest else 1.0


def levenshtein(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Fewest insertions, removals and replacements that make one sequence the other."""
    differs = ~equal_pairs(left, right)
    steps = np.arange(len(right) + 1)
    row = steps.copy()
    for position in range(len(left)):
        best = np.concatenate(([position + 1], np.minimum(row[1:] + 1, row[:-1] + differs[position])))
        row = np.minimum.accumulate(best - steps) + steps
    return int(row[-1])
