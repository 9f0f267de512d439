"""A Merkle tree over the chains of a run: one root for all, and inclusion proofs for single chains. Pure.

The tree of RFC 6962, over BLAKE3: a leaf is the digest of a zero byte and the leaf's bytes, a node that of a one byte
and its two children, and a child without a sibling stands for itself one level up. The root of nothing is the digest of
nothing. A proof is the siblings from the leaf to the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.records import canonical_bytes, digest_bytes

_DIGEST = re.compile(r"blake3:[0-9a-f]{64}")


class ChainHead(NamedTuple):
    """The state of a chain: its name, its number of events, and the digest of the last of them."""

    chain: str
    length: int
    head: str


def leaf_digest(head: ChainHead) -> str:
    """Returns the leaf of a chain: the digest over the canonical JSON of `[chain, length, head]`."""
    return digest_bytes(b"\x00" + canonical_bytes(list(head)))


def merkle_root(leaves: Iterable[str]) -> str:
    level = list(leaves)
    if not level:
        return digest_bytes(b"")
    while len(level) > 1:
        level = _parent_level(level)
    return level[0]


def inclusion_proof(leaves: Sequence[str], index: int) -> tuple[str, ...]:
    """Returns the siblings on the way from a leaf to the root, lowest first."""
    level, path = list(leaves), list[str]()
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level, index = _parent_level(level), index // 2
    return tuple(path)


def root_from_proof(leaf: str, index: int, count: int, path: Sequence[str]) -> str | None:
    """Computes the root from a leaf and its siblings; None for an invalid path or index."""
    if not 0 <= index < count or not all(map(_DIGEST.fullmatch, path)):
        return None
    at, last, left = leaf, count - 1, list(path)
    while last > 0:
        if index % 2 or index < last:
            if not left:
                return None
            sibling = left.pop(0)
            at = _node_digest(sibling, at) if index % 2 else _node_digest(at, sibling)
        index, last = index // 2, last // 2
    return None if left else at


def _parent_level(level: list[str]) -> list[str]:
    pairs = [_node_digest(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return pairs + level[len(pairs) * 2 :]


def _node_digest(left: str, right: str) -> str:
    return digest_bytes(b"\x01" + _digest_bytes(left) + _digest_bytes(right))


def _digest_bytes(digest: str) -> bytes:
    return bytes.fromhex(digest.rpartition(":")[2])
