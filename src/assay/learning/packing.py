"""Packs rows of unequal length into sequences of one length.

A row is never cut or split over two packs, because its tokens depend on all tokens before them. Rows are placed by
falling length into the fullest pack with enough room.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError

from .rows import TrainingRow


class Pack(NamedTuple):
    """Consecutive rows. L is the packed length."""

    rows: tuple[TrainingRow, ...]
    token_ids: NDArray[np.int32]
    """[L] 0 for padding."""
    positions: NDArray[np.int32]
    """[L] position in the row."""
    segments: NDArray[np.int32]
    """[L] row number in this pack, from 1; 0 for padding. A token attends to its own segment only."""
    loss_mask: NDArray[np.bool_]
    """[L]"""
    starts: tuple[int, ...]
    """Start of each row, and end of the last one."""


def pack(rows: Sequence[TrainingRow], length: int, *, most: int | None = None) -> list[Pack]:
    """Packs every row once into packs of `length` tokens.

    Raises:
        UserError: A row is longer than a pack: rows are not cut.
    """
    order = sorted(range(len(rows)), key=lambda position: (-len(rows[position]), position))
    if order and len(rows[order[0]]) > length:
        long = sum(len(row) > length for row in rows)
        first = rows[order[0]]
        raise UserError(
            f"{long} of {len(rows)} rows are longer than {length} tokens (the longest, of attempt {first.attempt}, has "
            f"{len(first)}): take longer packs, or leave those rows out"
        )
    return [
        _build_pack([rows[position] for position in positions], length)
        for positions in _assign_packs(rows, order, length, most)
    ]


def _assign_packs(rows: Sequence[TrainingRow], order: list[int], length: int, most: int | None) -> list[list[int]]:
    """Returns row indices by pack, by best fit: the tightest open pack that fits is taken."""
    packs: list[list[int]] = []
    room: list[tuple[int, int]] = []
    for position in order:
        needed = len(rows[position])
        index = bisect.bisect_left(room, (needed, -1))
        if index < len(room):
            remaining, number = room.pop(index)
            packs[number].append(position)
        else:
            remaining, number = length, len(packs)
            packs.append([position])
        if remaining - needed > 0 and (most is None or len(packs[number]) < most):
            bisect.insort(room, (remaining - needed, number))
    return packs


def _build_pack(rows: list[TrainingRow], length: int) -> Pack:
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
