"""A sorted list of changes that shares what an edit leaves alone with the list it was made from.

A state of 50,000 changed paths in which one more path changes is described by a new list; comparing, sorting and
encoding all of it again would cost in proportion to the state. So the list consists of blocks of some hundred changes,
each encoded once; an edit replaces the blocks it touches. What remains linear runs in C: copying references, and
hashing the encoded bytes from the first edited block on, because a state's recorded digest covers the list in order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise, takewhile
from typing import Any, Final

from assay.environments.interface import Change
from assay.records import DIGEST_PREFIX, canonical_bytes

MOST_IN_BLOCK: Final = 256
LEAST_IN_BLOCK: Final = 64


class _Block:
    """Consecutive changes of a list; at least one."""

    __slots__ = ("_encoded", "changes", "first")

    def __init__(self, changes: Iterable[Change]) -> None:
        self.changes = tuple(changes)
        self.first = self.changes[0].path
        self._encoded: bytes | None = None

    def encode(self) -> bytes:
        """Returns the changes as canonical JSON, without the brackets of the array."""
        if self._encoded is None:
            self._encoded = canonical_bytes(self.changes)[1:-1]
        return self._encoded


def _hasher(start: bytes) -> Any:
    from blake3 import blake3  # late: importing this module costs nothing

    return blake3(start)


def _path_of(change: Change) -> str:
    return change.path


class ChangeSet(tuple[Change, ...]):
    """Changes sorted by path, each path once, as a tuple that knows its blocks."""

    _blocks: tuple[_Block, ...]
    _firsts: list[str]
    _hashers: list[Any]
    """The state of the hash after each block, for the first blocks."""

    def __new__(cls, changes: Iterable[Change] = ()) -> ChangeSet:
        """Returns the changes themselves if they are a `ChangeSet`, else sorts them and cuts them into blocks."""
        if isinstance(changes, ChangeSet):
            return changes
        return cls._from_blocks(_cut(sorted(changes, key=_path_of)))

    @classmethod
    def _from_blocks(cls, blocks: Iterable[_Block]) -> ChangeSet:
        kept = tuple(blocks)
        made = super().__new__(cls, chain.from_iterable(block.changes for block in kept))
        made._blocks, made._firsts, made._hashers = kept, [block.first for block in kept], []
        return made

    def find(self, path: str) -> Change | None:
        """Returns the change of a path; None without one."""
        if not self._blocks:
            return None
        changes = self._blocks[self._block_index(path)].changes
        at = bisect_left(changes, path, key=_path_of)
        return changes[at] if at < len(changes) and changes[at].path == path else None

    def edit(self, edits: Mapping[str, Change | None], cleared: Iterable[str] = ()) -> ChangeSet:
        """Returns the list after removing everything below the `cleared` paths, then applying the edits.

        Args:
            edits: Path to its new change; None removes the path.
            cleared: Paths of which nothing below remains. Their own changes stay unless edited.
        """
        if not self._blocks:
            return ChangeSet(change for change in edits.values() if change is not None)
        opened: dict[int, dict[str, Change]] = {}
        for path in cleared:
            self._clear(path, opened)
        for path, change in edits.items():
            index = self._block_index(path)
            if index in opened or self.find(path) != change:
                changes = self._open_block(index, opened)
                changes.pop(path, None)
                if change is not None:
                    changes[path] = change
        if not opened:
            return self
        made = self._from_blocks(self._merge(opened))
        shared = sum(
            1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self._blocks, made._blocks, strict=False))
        )
        made._hashers = self._hashers[:shared]
        return made

    def unshared(self, other: ChangeSet) -> dict[str, Change]:
        """Returns the changes in blocks that `other` does not have: a superset of the differences between the two."""
        theirs = {id(block) for block in other._blocks}
        blocks = (block for block in self._blocks if id(block) not in theirs)
        return {change.path: change for block in blocks for change in block.changes}

    def digest(self, image_digest: str) -> str:
        """Returns the content address of the record `{"changes": [...], "image": image_digest}`.

        The hash of the blocks before the first edited one is that of the list that was edited.
        """
        for block in self._blocks[len(self._hashers) :]:
            hasher = self._hashers[-1].copy() if self._hashers else _hasher(b'{"changes":[')
            hasher.update(b"," + block.encode() if self._hashers else block.encode())
            self._hashers.append(hasher)
        whole = self._hashers[-1].copy() if self._hashers else _hasher(b'{"changes":[')
        whole.update(b'],"image":' + canonical_bytes(image_digest) + b"}")
        return DIGEST_PREFIX + str(whole.hexdigest())

    def _block_index(self, path: str) -> int:
        """Returns the index of the block in which a path is, or would be inserted."""
        return max(0, bisect_right(self._firsts, path) - 1)

    def _open_block(self, index: int, opened: dict[int, dict[str, Change]]) -> dict[str, Change]:
        if index not in opened:
            opened[index] = {change.path: change for change in self._blocks[index].changes}
        return opened[index]

    def _clear(self, path: str, opened: dict[int, dict[str, Change]]) -> None:
        """Removes everything below a path: in the order of paths it is consecutive, from `path/` to before `path0`."""
        low, high = path + "/", path + chr(ord("/") + 1)
        for index in range(self._block_index(low), self._block_index(high) + 1):
            changes = self._blocks[index].changes
            first, last = bisect_left(changes, low, key=_path_of), bisect_left(changes, high, key=_path_of)
            if first < last:
                remaining = self._open_block(index, opened)
                for change in changes[first:last]:
                    remaining.pop(change.path, None)

    def _merge(self, opened: Mapping[int, Mapping[str, Change]]) -> list[_Block]:
        """Returns the blocks with the opened ones cut anew; one that became small is joined to the block before it."""
        merged: list[_Block] = []
        run: list[Change] = []
        for index, block in enumerate(self._blocks):
            if index in opened:
                run += sorted(opened[index].values(), key=_path_of)
                continue
            _append_run(merged, run)
            run = []
            merged.append(block)
        _append_run(merged, run)
        return merged


def _append_run(blocks: list[_Block], run: list[Change]) -> None:
    if 0 < len(run) < LEAST_IN_BLOCK and blocks:
        run = [*blocks.pop().changes, *run]
    blocks.extend(_cut(run))


def _cut(changes: list[Change]) -> Iterator[_Block]:
    """Yields blocks of nearly equal size."""
    count = -(-len(changes) // MOST_IN_BLOCK)
    edges = [len(changes) * number // count for number in range(count + 1)] if count else []
    return (_Block(changes[first:last]) for first, last in pairwise(edges))
