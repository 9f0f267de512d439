"""Messages nearly equal to one of the two before them, over Arrow columns.

Most pairs are excluded by a 64-bit map of each text's trigrams: maps that differ in more bits than similar sets could
differ in elements are dissimilar. The rest are compared exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .text import NEAR, jaccard, plain, trigrams

LEAST_TOKENS, LOOK_BACK = 5, 2
_PART = 200_000
_BITS = np.array([bin(n).count("1") for n in range(256)], dtype=np.uint8)
_MOST_DIFFERENT = (1 - NEAR) / (1 + NEAR)
"""Maximum relative symmetric difference of two sets with that Jaccard index."""


def repeats(owner: NDArray[np.int64], texts: Any, size: int) -> NDArray[np.int64]:
    """Counts the messages of each of `size` trajectories that are similar to one of the two before them.

    `owner` is the trajectory of each message, in order; `texts` an Arrow array of lower-case strings without nulls.
    """
    maps, lengths = _maps(texts)
    found = np.zeros(len(owner), dtype=bool)
    sets: dict[int, tuple[frozenset[bytes], int]] = {}
    for back in range(1, LOOK_BACK + 1):
        later = np.arange(back, len(owner), dtype=np.int64)
        later = later[owner[later] == owner[later - back]]
        apart = _popcount(maps[later] ^ maps[later - back])
        most = _MOST_DIFFERENT * (lengths[later] + lengths[later - back])
        for position in later[apart <= most].tolist():
            if not found[position]:
                found[position] = _is_near(texts, position, position - back, sets)
    return np.bincount(owner[found], minlength=size).astype(np.int64, copy=False)


def _is_near(texts: Any, later: int, earlier: int, sets: dict[int, tuple[frozenset[bytes], int]]) -> bool:
    if len(sets) > _PART:
        sets.clear()
    for position in (later, earlier):
        if position not in sets:
            text = texts[position].as_py()
            sets[position] = trigrams(text), len(plain(text).split())
    (one, tokens), (other, fewer) = sets[later], sets[earlier]
    return min(tokens, fewer) >= LEAST_TOKENS and jaccard(one, other) >= NEAR


def _popcount(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = _BITS[words.view(np.uint8).reshape(-1, 8)].sum(axis=1).astype(np.int64)
    return found


def _maps(texts: Any) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns a 64-bit map and the length in bytes of each text."""
    import pyarrow as pa

    maps, lengths = [], []
    for begin in range(0, len(texts), _PART):
        part = texts.slice(begin, _PART).cast(pa.large_binary())
        offsets = np.frombuffer(part.buffers()[1], dtype=np.int64)[part.offset : part.offset + len(part) + 1]
        whole = np.frombuffer(part.buffers()[2] or b"", dtype=np.uint8)
        data = whole[offsets[0] : offsets[-1]].astype(np.uint32)
        lengths.append(np.diff(offsets))
        maps.append(_map(data, offsets - offsets[0]))
    if not maps:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    return np.concatenate(maps), np.concatenate(lengths)


def _map(data: NDArray[np.uint32], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    found = np.zeros(len(offsets) - 1, dtype=np.uint64)
    held = np.flatnonzero(np.diff(offsets) >= 3)
    if not len(held):
        return found
    hashed = (data[:-2] * 961 + data[1:-1] * 31 + data[2:]) % 64
    bits = np.concatenate((np.left_shift(np.uint64(1), hashed.astype(np.uint64)), np.zeros(2, dtype=np.uint64)))
    # A run of three bytes that reaches into the next text is of neither.
    ends = offsets[1:][np.diff(offsets) > 0]
    bits[ends - 1] = 0
    bits[np.maximum(ends - 2, 0)] = 0
    starts = offsets[:-1][held]
    found[held] = np.bitwise_or.reduceat(bits, starts)
    return found
