"""A tree of digests over the chains of a run: one root for all, and a short proof that one chain is among them. Pure.

The tree of RFC 6962, over BLAKE3: a leaf is the digest of a zero byte and the leaf's bytes, a node that of a one byte
and its two children, and a child without a sibling stands for itself one level up. The root of nothing is the digest of
nothing. A proof is the siblings from the leaf to the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.records import canonical_bytes, digest_bytes

__all__ = ["Head", "climb", "leaf_of", "proof_of", "root_of"]


_DIGEST = re.compile(r"blake3:[0-9a-f]{64}")


class Head(NamedTuple):
    """How far a chain went: its name, its number of events, and the digest of the last of them."""

    chain: str
    length: int
    head: str


def leaf_of(head: Head) -> str:
    """The leaf of a chain: over the canonical JSON of `[chain, length, head]`."""
    return digest_bytes(b"\x00" + canonical_bytes(list(head)))


def root_of(leaves: Iterable[str]) -> str:
    """The root over leaves, in their order."""
    level = list(leaves)
    if not level:
        return digest_bytes(b"")
    while len(level) > 1:
        level = _above(level)
    return level[0]


def proof_of(leaves: Sequence[str], index: int) -> tuple[str, ...]:
    """The siblings on the way from a leaf to the root, lowest first."""
    level, path = list(leaves), list[str]()
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level, index = _above(level), index // 2
    return tuple(path)


def climb(leaf: str, index: int, count: int, path: Sequence[str]) -> str | None:
    """The root that a leaf at an index of `count` and its siblings lead to; None where there are too few or many."""
    if not 0 <= index < count or not all(map(_DIGEST.fullmatch, path)):
        return None
    at, last, left = leaf, count - 1, list(path)
    while last > 0:
        if index % 2 or index < last:
            if not left:
                return None
            sibling = left.pop(0)
            at = _node(sibling, at) if index % 2 else _node(at, sibling)
        index, last = index // 2, last // 2
    return None if left else at


def _above(level: list[str]) -> list[str]:
    pairs = [_node(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return pairs + level[len(pairs) * 2 :]


def _node(left: str, right: str) -> str:
    return digest_bytes(b"\x01" + _raw(left) + _raw(right))


def _raw(digest: str) -> bytes:
    return bytes.fromhex(digest.rpartition(":")[2])
