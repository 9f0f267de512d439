"""Sums, means, medians and discounted returns by group, vectorised.

Time O(n log n) at most and memory O(n), whatever the sizes of the groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interface import Batch, Bools, Credit, Floats, Ints


def group_codes(keys: NDArray[Any]) -> tuple[Ints, int]:
    """Returns codes 0 to n - 1 of the distinct keys [N], and n."""
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


def pair_codes(first: Ints, second: Ints) -> Ints:
    """Returns one code [N] for each pair of keys."""
    left, _ = group_codes(first)
    right, count = group_codes(second)
    return left * max(count, 1) + right


def mean(values: Floats, group: Ints, count: int, weights: Floats | None = None) -> Floats:
    """Returns the mean [count] of each group; 0 for an empty one."""
    total = np.bincount(group, weights=values if weights is None else values * weights, minlength=count)
    size = np.bincount(group, weights=weights, minlength=count)
    return np.divide(total, size, out=np.zeros(count), where=size > 0)


def deviation(values: Floats, group: Ints, count: int) -> Floats:
    """Returns the sample standard deviation [count] of each group; 0 for fewer than two values."""
    size = np.bincount(group, minlength=count)
    centred = values - mean(values, group, count)[group]
    squares = np.bincount(group, weights=centred * centred, minlength=count)
    return np.sqrt(np.divide(squares, size - 1, out=np.zeros(count), where=size > 1))


def median(values: Floats, group: Ints, count: int) -> Floats:
    """Returns the median [count] of each group; 0 for an empty one."""
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
    """Returns a mask [T] of the last turn of each attempt."""
    last = np.ones(len(batch.attempt), dtype=bool)
    last[:-1] = batch.attempt[1:] != batch.attempt[:-1]
    return last


def turn_numbers(batch: Batch) -> Ints:
    """Returns each turn's index [T] in its attempt, from 0."""
    size = np.bincount(batch.attempt, minlength=len(batch.group))
    return np.arange(len(batch.attempt)) - (np.cumsum(size) - size)[batch.attempt]


def rewards(batch: Batch) -> Floats:
    """Returns the reward [T] of each turn; an attempt's outcome reward is added to its last turn."""
    earned = batch.turn_reward.copy()
    last = last_turns(batch)
    earned[last] += batch.reward[batch.attempt[last]]
    return earned


def discounted(earned: Floats, attempt: Ints, discount: float) -> Floats:
    """Returns discounted returns to go [T] within each attempt.

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
    """Returns the sum [A] over each attempt's turns."""
    return np.bincount(batch.attempt, weights=values, minlength=len(batch.group)).astype(np.float64, copy=False)


def progress_gains(batch: Batch) -> Floats:
    """Returns the gain [T] in measured progress since the previous measurement; 0 where not measured, and at the first
    measurement of a fork, which holds what the steps before it gained."""
    shares = require_column(batch, "progress")
    known = ~np.isnan(shares)
    if np.any((shares[known] < 0) | (shares[known] > 1)):
        raise ValueError("column 'progress' holds a share outside [0, 1]")
    found = np.zeros(len(shares))
    places = np.flatnonzero(known)
    before = np.where(batch.forked[batch.attempt[places]], shares[places], 0.0)
    same = batch.attempt[places[1:]] == batch.attempt[places[:-1]]
    before[1:][same] = shares[places[:-1]][same]
    found[places] = shares[places] - before
    return found


def require_column(batch: Batch, column: str) -> Any:
    """Returns a required column."""
    found = getattr(batch, column)
    if found is None:
        raise ValueError(f"this method needs the column {column!r}, which the batch does not have")
    if column == "reward" and np.any(np.isnan(found)):
        first = int(np.flatnonzero(np.isnan(found))[0])
        raise ValueError(f"attempt {first} has no reward; leave such attempts out with evidence_aware, or score them")
    return found


def credit_attempts(advantage: Floats, batch: Batch) -> Credit:
    """Returns credit in which each turn has its attempt's advantage [A]."""
    return credit_turns(advantage[batch.attempt])


def credit_turns(advantage: Floats) -> Credit:
    """Returns credit of turns [T], none masked."""
    return Credit(advantage.astype(np.float32), np.ones(len(advantage), dtype=bool), {})


def mask_turns(credit: Credit, drop: Bools, reason: str) -> Credit:
    """Masks more turns for `reason`; already masked turns keep their reason."""
    more = credit.mask & drop
    if not more.any():
        return credit
    reasons = {**credit.reasons, reason: credit.reasons.get(reason, 0) + int(more.sum())}
    return Credit(np.where(more, np.float32(0), credit.advantage), credit.mask & ~more, reasons)
