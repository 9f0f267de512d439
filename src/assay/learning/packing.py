"""Puts rows of unequal length into sequences of one length, for trainers that take such.

A row is never cut and never split over two packs: its tokens were sampled under all that stands before them. Each goes,
in order of falling length, into the fullest pack that has room for it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError

from .rows import TrainingRow

__all__ = ["Pack", "pack"]


class Pack(NamedTuple):
    """Rows one after the other. L is the length asked for."""

    rows: tuple[TrainingRow, ...]
    token_ids: NDArray[np.int32]
    """[L] 0 where nothing stands."""
    positions: NDArray[np.int32]
    """[L] place of a token in its row: begins anew with each row."""
    segments: NDArray[np.int32]
    """[L] number of the row in this pack, from 1; 0 where nothing stands. A token may see its own segment alone."""
    loss_mask: NDArray[np.bool_]
    """[L]"""
    starts: tuple[int, ...]
    """Where each row begins, and where the last one ends."""


def pack(rows: Sequence[TrainingRow], length: int, *, most: int | None = None) -> list[Pack]:
    """Packs of `length` tokens that hold every row once.

    Args:
        rows: Any number of rows.
        length: Tokens of a pack.
        most: Rows of one pack at most.

    Raises:
        UserError: A row is longer than a pack: rows are not cut.
    """
    order = sorted(range(len(rows)), key=lambda place: (-len(rows[place]), place))
    if order and len(rows[order[0]]) > length:
        long = sum(len(row) > length for row in rows)
        first = rows[order[0]]
        raise UserError(
            f"{long} of {len(rows)} rows are longer than {length} tokens (the longest, of attempt {first.attempt}, has "
            f"{len(first)}): take longer packs, or leave those rows out"
        )
    return [_packed([rows[place] for place in places], length) for places in _fitted(rows, order, length, most)]


def _fitted(rows: Sequence[TrainingRow], order: list[int], length: int, most: int | None) -> list[list[int]]:
    """Places of rows by pack. Open packs are kept by the room they have left: the tightest that fits is taken."""
    packs: list[list[int]] = []
    room: list[tuple[int, int]] = []
    for place in order:
        needed = len(rows[place])
        found = bisect.bisect_left(room, (needed, -1))
        if found < len(room):
            left, number = room.pop(found)
            packs[number].append(place)
        else:
            left, number = length, len(packs)
            packs.append([place])
        if left - needed > 0 and (most is None or len(packs[number]) < most):
            bisect.insort(room, (left - needed, number))
    return packs


def _packed(rows: list[TrainingRow], length: int) -> Pack:
    token_ids = np.zeros(length, dtype=np.int32)
    positions, segments = np.zeros(length, dtype=np.int32), np.zeros(length, dtype=np.int32)
    loss_mask = np.zeros(length, dtype=np.bool_)
    starts = [0]
    for number, row in enumerate(rows, start=1):
        begin, end = starts[-1], starts[-1] + len(row)
        token_ids[begin:end], loss_mask[begin:end] = row.token_ids, row.loss_mask
        positions[begin:end], segments[begin:end] = np.arange(len(row)), number
        starts.append(end)
    return Pack(tuple(rows), token_ids, positions, segments, loss_mask, tuple(starts))
