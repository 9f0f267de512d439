"""Loops of calls over NumPy columns: runs of equal calls or of one tool, and repeated tool patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_RUN, LEAST_CYCLES = 3, 3
PERIODS = (2, 3, 4, 5)
_Ints = NDArray[np.int64]


def _runs(same: NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
    padded = np.concatenate(([False], same, [False])).astype(np.int8)
    edges = np.diff(padded)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1


def _equal_to_before(owner: _Ints, *columns: _Ints) -> NDArray[np.bool_]:
    same = np.zeros(len(owner), dtype=bool)
    if len(owner) > 1:
        same[1:] = owner[1:] == owner[:-1]
        for column in columns:
            same[1:] &= column[1:] == column[:-1]
    return same


def _count(owners: _Ints, size: int) -> _Ints:
    return np.bincount(owners, minlength=size).astype(np.int64)


def retries(owner: _Ints, tool: _Ints, arguments: _Ints, size: int) -> _Ints:
    """Counts runs of at least three equal calls in each of `size` trajectories.

    `owner`, `tool` and `arguments`, each of shape (calls,), are the trajectory of each call, in order, and codes.
    """
    first, last = _runs(_equal_to_before(owner, tool, arguments))
    long = last - first + 2 >= LEAST_RUN
    return _count(owner[first[long]], size)


def drifts(owner: _Ints, tool: _Ints, arguments: _Ints, size: int) -> _Ints:
    """Counts runs of one tool with at least two sets of arguments; arguments as of `retries`."""
    same_tool = _equal_to_before(owner, tool)
    first, last = _runs(same_tool)
    changed = np.cumsum(same_tool & ~_equal_to_before(owner, tool, arguments))
    before = np.where(first > 0, changed[np.maximum(first - 1, 0)], 0)
    varied = changed[last] - before > 0 if len(first) else np.zeros(0, dtype=bool)
    long = last - first + 2 >= LEAST_RUN
    return _count(owner[first[long & varied]], size)


def oscillations(owner: _Ints, tool: _Ints, size: int) -> _Ints:
    """Counts patterns of two to five tools, not all equal, repeated at least three times; arguments as of `retries`.

    A stretch counts once, for its shortest pattern.
    """
    counts = np.zeros(size, dtype=np.int64)
    covered = np.zeros(len(owner), dtype=np.int64)
    changes = np.concatenate(([0], np.cumsum(~_equal_to_before(owner, tool)))).astype(np.int64)
    for period in PERIODS:
        same = np.zeros(len(owner), dtype=bool)
        same[period:] = (owner[period:] == owner[:-period]) & (tool[period:] == tool[:-period])
        first, last = _runs(same)
        begin = first - period
        long = last - begin + 1 >= LEAST_CYCLES * period
        begin, last = begin[long], last[long]
        varied = changes[last + 1] - changes[begin + 1] > 0
        begin, last = begin[varied], last[varied]
        known = np.concatenate(([0], np.cumsum(covered)))
        new = known[last + 1] - known[begin] < last - begin + 1
        begin, last = begin[new], last[new]
        counts += _count(owner[begin], size)
        _cover(covered, begin, last)
    return counts


def _cover(covered: Any, begin: _Ints, last: _Ints) -> None:
    marks = np.zeros(len(covered) + 1, dtype=np.int64)
    np.add.at(marks, begin, 1)
    np.add.at(marks, last + 1, -1)
    covered |= (np.cumsum(marks[:-1]) > 0).astype(np.int64)
