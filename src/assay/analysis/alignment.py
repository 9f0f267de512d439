"""Longest common subsequences, and alignment of two sequences.

Source: Wagner and Fischer (1974), a table of n x m. Unlike in a greedy scan, an unmatched element does not prevent
later matches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_CELLS = 25_000_000


class Pair(NamedTuple):
    """Positions in the two sequences."""

    left: int
    right: int


def equal_rows(left: Sequence[Hashable], right: Sequence[Hashable]) -> Iterator[NDArray[np.bool_]]:
    """Yields, for each element of `left`, equality with all of `right`, of shape (len(right),)."""
    codes: dict[Hashable, int] = {}
    first = [codes.setdefault(each, len(codes)) for each in left]
    second = np.array([codes.setdefault(each, len(codes)) for each in right], dtype=np.int64)
    for code in first:
        yield second == code


def _table(matches: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Returns LCS lengths of every two prefixes, of shape (n + 1, m + 1)."""
    table = np.zeros((matches.shape[0] + 1, matches.shape[1] + 1), dtype=np.int32)
    for row in range(matches.shape[0]):
        best = np.maximum(table[row, 1:], table[row, :-1] + matches[row])
        table[row + 1, 1:] = np.maximum.accumulate(best)
    return table


def common_length(matches: Iterable[NDArray[np.bool_]]) -> int:
    """Returns the LCS length of two sequences, given per row n the matches of the n-th element."""
    length: NDArray[np.int32] | None = None
    for row in matches:
        if length is None:
            length = np.zeros(len(row) + 1, dtype=np.int32)
        length[1:] = np.maximum.accumulate(np.maximum(length[1:], length[:-1] + row))
    return 0 if length is None else int(length[-1])


def align(matches: NDArray[np.bool_]) -> tuple[Pair, ...]:
    """Returns the pairs of one longest common subsequence, in order, preferring early matches.

    Raises:
        ValueError: The table would have more than 25 million cells.
    """
    if matches.size > MOST_CELLS:
        raise ValueError(
            f"sequences of {matches.shape[0]} and {matches.shape[1]} are too long to align: cut them first"
        )
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
    """Returns the LCS length over the longer length, in [0, 1]; 1 for two empty sequences."""
    longest = max(len(left), len(right))
    return common_length(equal_rows(left, right)) / longest if longest else 1.0
