"""Sums, means, medians and discounted returns by group, each a handful of passes over the columns.

Time O(n log n) at most and memory O(n), whatever the sizes of the groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interface import Batch, Bools, Credit, Floats, Ints

__all__ = ["codes", "credit", "deviation", "discounted", "last_turns", "mean", "median", "needed", "numbered", "pairs",
           "per_attempt", "rewards", "rises", "spread", "without"]  # fmt: skip


def codes(keys: NDArray[Any]) -> tuple[Ints, int]:
    """Numbers 0 to n - 1 for the distinct keys [N], and n."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64), 0
    low, high = int(keys.min()), int(keys.max())
    if low >= 0 and high < 4 * len(keys) + 1024:  # counting is ten times as fast as sorting
        present = np.zeros(high + 1, dtype=bool)
        present[keys] = True
        numbers = np.cumsum(present) - 1
        return numbers[keys].astype(np.int64, copy=False), int(numbers[-1]) + 1
    distinct, inverse = np.unique(keys, return_inverse=True)
    return inverse.astype(np.int64, copy=False), len(distinct)


def pairs(first: Ints, second: Ints) -> Ints:
    """One key [N] for each pair of keys: equal where both are."""
    left, _ = codes(first)
    right, count = codes(second)
    return left * max(count, 1) + right


def mean(values: Floats, group: Ints, count: int, weights: Floats | None = None) -> Floats:
    """Mean [count] by group; 0 for an empty one."""
    total = np.bincount(group, weights=values if weights is None else values * weights, minlength=count)
    size = np.bincount(group, weights=weights, minlength=count)
    return np.divide(total, size, out=np.zeros(count), where=size > 0)


def deviation(values: Floats, group: Ints, count: int) -> Floats:
    """Standard deviation [count] by group with n - 1 in the denominator; 0 for fewer than two."""
    size = np.bincount(group, minlength=count)
    centred = values - mean(values, group, count)[group]
    squares = np.bincount(group, weights=centred * centred, minlength=count)
    return np.sqrt(np.divide(squares, size - 1, out=np.zeros(count), where=size > 1))


def median(values: Floats, group: Ints, count: int) -> Floats:
    """Median [count] by group, of an even number the mean of the middle two; 0 for an empty one."""
    order = np.lexsort((values, group))
    size = np.bincount(group, minlength=count)
    start = np.cumsum(size) - size
    ordered = values[order]
    found = np.zeros(count)
    held = size > 0
    low = start[held] + (size[held] - 1) // 2
    high = start[held] + size[held] // 2
    found[held] = (ordered[low] + ordered[high]) / 2
    return found


def last_turns(batch: Batch) -> Bools:
    """[T] whether the turn is its attempt's last."""
    last = np.ones(len(batch.attempt), dtype=bool)
    last[:-1] = batch.attempt[1:] != batch.attempt[:-1]
    return last


def numbered(batch: Batch) -> Ints:
    """[T] number of the turn in its attempt, from 0."""
    size = np.bincount(batch.attempt, minlength=len(batch.group))
    return np.arange(len(batch.attempt)) - (np.cumsum(size) - size)[batch.attempt]


def rewards(batch: Batch) -> Floats:
    """[T] what each turn earned: its own reward, and at the attempt's last turn that of the outcome."""
    earned = batch.turn_reward.copy()
    last = last_turns(batch)
    earned[last] += batch.reward[batch.attempt[last]]
    return earned


def discounted(earned: Floats, attempt: Ints, discount: float) -> Floats:
    """[T] each turn's own plus `discount` times that of the next turn of its attempt, from the last one backwards.

    One pass over all attempts for each place counted from the end, so the time is that of the turns plus that of the
    longest attempt.
    """
    found = earned.astype(np.float64, copy=True)
    if not len(found) or not discount:
        return found
    ends = np.flatnonzero(np.append(attempt[1:] != attempt[:-1], True))
    sizes = np.diff(ends, prepend=-1)
    order = np.argsort(-sizes, kind="stable")
    ends, sizes = ends[order], sizes[order]
    still = np.searchsorted(-sizes, -np.arange(1, sizes[0] + 1), side="right")
    for back in range(1, int(sizes[0])):
        here = ends[: still[back]] - back
        found[here] += discount * found[here + 1]
    return found


def per_attempt(values: Floats, batch: Batch) -> Floats:
    """Sum [A] over each attempt's turns."""
    return np.bincount(batch.attempt, weights=values, minlength=len(batch.group)).astype(np.float64, copy=False)


def rises(batch: Batch) -> Floats:
    """[T] by how much the measured progress rose at the turn since it was measured last, 0 before the first; NaN-free.

    Raises:
        ValueError: The batch has no progress, or a share lies outside [0, 1].
    """
    shares = needed(batch, "progress")
    known = ~np.isnan(shares)
    if np.any((shares[known] < 0) | (shares[known] > 1)):
        raise ValueError("column 'progress' holds a share outside [0, 1]")
    found = np.zeros(len(shares))
    places = np.flatnonzero(known)
    before = np.zeros(len(places))
    same = batch.attempt[places[1:]] == batch.attempt[places[:-1]]
    before[1:][same] = shares[places[:-1]][same]
    found[places] = shares[places] - before
    return found


def needed(batch: Batch, column: str) -> Any:
    """A column that the method cannot do without.

    Raises:
        ValueError: The batch has none.
    """
    found = getattr(batch, column)
    if found is None:
        raise ValueError(f"this method needs the column {column!r}, which the batch does not have")
    if column == "reward" and np.any(np.isnan(found)):
        first = int(np.flatnonzero(np.isnan(found))[0])
        raise ValueError(f"attempt {first} has no reward; leave such attempts out with evidence_aware, or score them")
    return found


def spread(advantage: Floats, batch: Batch) -> Credit:
    """Credit that gives every turn its attempt's advantage [A]."""
    return credit(advantage[batch.attempt])


def credit(advantage: Floats) -> Credit:
    """Credit of turns [T], none masked."""
    return Credit(advantage.astype(np.float32), np.ones(len(advantage), dtype=bool), {})


def without(held: Credit, drop: Bools, reason: str) -> Credit:
    """The credit with more turns masked, told under the reason; those that are masked already keep theirs."""
    more = held.mask & drop
    if not more.any():
        return held
    reasons = {**held.reasons, reason: held.reasons.get(reason, 0) + int(more.sum())}
    return Credit(np.where(more, np.float32(0), held.advantage), held.mask & ~more, reasons)
