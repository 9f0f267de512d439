"""Prefix KV cache: keys and values of tokens, kept between calls.

Each token has a slot in one table per layer. A sequence is a list of slots; sequences with a common prefix share them.
A slot without references is free. Finished sequences stay cached until evicted, least recently used first; a weight
update evicts all.

Invariant: a slot holds the keys and values of a token computed after exactly the tokens before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

_BLOCK = 8
"""Block length in tokens; shorter prefixes are not looked up."""
_PADDING_SLOT = 0
"""Slot to which padding is written."""
_INITIAL_SLOTS = 1024
_MAX_FINISHED = 4096
"""Maximum number of finished sequences."""
Slots = NDArray[np.int64]


class CachedSequence:
    """A sequence and its cached prefix: `slots[i]` holds `ids[i]`; ids beyond `slots` are unread."""

    def __init__(self, ids: Sequence[int], slots: Slots) -> None:
        self.ids = list(ids)
        self.slots = slots
        self.keys: list[int] = []

    def common_prefix_length(self, ids: Sequence[int], least: int) -> int:
        """Returns the length of the common cached prefix with `ids`, or 0 if it is shorter than `least`."""
        most = min(len(self.slots), len(ids))
        if self.ids[:least] != list(ids[:least]) or most < least:
            return 0
        count = least
        while count < most and self.ids[count] == ids[count]:
            count += 1
        return count


class PrefixKVCache:
    """Slots with reference counts."""

    def __init__(self, max_bytes: int) -> None:
        self.layers: list[_Layer] = []
        self._max_bytes = max_bytes
        self._reference_counts: NDArray[np.int32] = np.zeros(_INITIAL_SLOTS, dtype=np.int32)
        self._free: list[int] = list(range(_INITIAL_SLOTS - 1, _PADDING_SLOT, -1))
        self._by_block: dict[int, CachedSequence] = {}
        self._finished: OrderedDict[int, CachedSequence] = OrderedDict()

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return len(self._reference_counts)

    @property
    def used_slots(self) -> int:
        """Number of slots in use."""
        return self.capacity - 1 - len(self._free)

    def begin(self, prompt: Sequence[int]) -> CachedSequence:
        """Returns a sequence that shares the longest cached prefix of `prompt`, without its last token."""
        found, common = self._longest_match(prompt)
        common = min(common, len(prompt) - 1)
        slots = np.empty(0, dtype=np.int64)
        if found is not None and common > 0:
            slots = found.slots[:common].copy()
            self._reference_counts[slots] += 1
            if id(found) in self._finished:
                self._finished.move_to_end(id(found))
        return CachedSequence(prompt, slots)

    def allocate(self, sequence: CachedSequence, count: int) -> Slots:
        """Allocates slots for the next `count` tokens of `sequence`."""
        if len(self._free) < count:
            self._grow(count)
        allocated = np.array([self._free.pop() for _ in range(count)], dtype=np.int64)
        self._reference_counts[allocated] = 1
        sequence.slots = np.concatenate([sequence.slots, allocated])
        return allocated

    def publish(self, sequence: CachedSequence) -> None:
        """Makes the cached prefix of `sequence` available to others."""
        for number, key in enumerate(_block_keys(sequence.ids[: len(sequence.slots)])):
            if number >= len(sequence.keys):
                sequence.keys.append(key)
                self._by_block[key] = sequence  # the newest reaches furthest, and is dropped last

    def finish(self, sequence: CachedSequence) -> None:
        """Caches a finished sequence, evicting the oldest over the bounds."""
        self.publish(sequence)
        self._finished[id(sequence)] = sequence
        while len(self._finished) > _MAX_FINISHED or (
            self._finished and self.used_slots * self._bytes_per_token() > self._max_bytes
        ):
            self._drop_oldest()

    def release(self, sequence: CachedSequence) -> None:
        """Releases the slots of a sequence, for example after a failed pass."""
        self._finished.pop(id(sequence), None)
        for key in sequence.keys:
            if self._by_block.get(key) is sequence:
                del self._by_block[key]
        self._reference_counts[sequence.slots] -= 1
        self._free += sequence.slots[self._reference_counts[sequence.slots] == 0].tolist()
        sequence.slots, sequence.keys = sequence.slots[:0], []

    def clear(self) -> None:
        """Evicts all finished sequences."""
        while self._finished:
            self._drop_oldest()

    def _longest_match(self, prompt: Sequence[int]) -> tuple[CachedSequence | None, int]:
        found, common = None, 0
        for number, key in enumerate(_block_keys(prompt)):
            known = self._by_block.get(key)
            if known is None:
                break
            shared = known.common_prefix_length(prompt, (number + 1) * _BLOCK)
            if shared > common:
                found, common = known, shared
        return found, common

    def _drop_oldest(self) -> None:
        _, sequence = self._finished.popitem(last=False)
        self.release(sequence)

    def _grow(self, count: int) -> None:
        while (
            self._finished and len(self._free) < count and 2 * self.capacity * self._bytes_per_token() > self._max_bytes
        ):
            self._drop_oldest()
        if len(self._free) >= count:
            return
        before = self.capacity
        after = max(2 * before, before + count)
        self._reference_counts = np.concatenate([self._reference_counts, np.zeros(after - before, dtype=np.int32)])
        self._free += range(after - 1, before - 1, -1)

    def _bytes_per_token(self) -> int:
        return sum(layer.bytes_each for layer in self.layers)


class _Layer:
    """One layer's tables: keys and values of shape (slots, heads * head size)."""

    def __init__(self) -> None:
        self._tables: list[torch.Tensor] = []
        self.bytes_each = 0

    def put(self, at: torch.Tensor, states: Sequence[torch.Tensor], capacity: int) -> None:
        """Writes states of shape (requests, heads, tokens, size) to the slots `at`, of shape (requests * tokens,)."""
        flat = [state.transpose(1, 2).flatten(0, 1).flatten(1) for state in states]
        if not self._tables:
            self._tables = [rows.new_zeros((capacity, rows.shape[1])) for rows in flat]
            self.bytes_each = sum(rows.shape[1] * rows.element_size() for rows in flat)
        elif len(self._tables[0]) < capacity:
            self._tables = [_enlarged(table, capacity) for table in self._tables]
        for table, rows in zip(self._tables, flat, strict=True):
            table.index_copy_(0, at, rows)

    def get(self, at: torch.Tensor, states: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the contents of the slots `at` of shape (requests, tokens), in the layout of `states`."""
        keys, values = (
            table.index_select(0, at.flatten()).view(*at.shape, state.shape[1], state.shape[3]).transpose(1, 2)
            for table, state in zip(self._tables, states, strict=True)
        )
        return keys, values


def _enlarged(table: torch.Tensor, capacity: int) -> torch.Tensor:
    grown = table.new_zeros((capacity, table.shape[1]))
    grown[: len(table)] = table
    return grown


class CachePass:
    """One forward pass: the slots its new tokens are written to, and the slots each request attends to.

    `written` is of shape (requests, tokens), where padding goes nowhere; `seen` of (requests, longest conversation).
    """

    def __init__(self, pool: PrefixKVCache, target_slots: Slots, visible: Slots, device: Any) -> None:
        import torch

        self.pool = pool
        self.target_slots = torch.from_numpy(target_slots).to(device).flatten()
        self.visible = torch.from_numpy(visible).to(device)

    def cache(self) -> Any:
        """Returns the pass as a Transformers `Cache`."""
        return _cache_type()(self)

    def exchange(self, layer: int, states: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores a layer's new keys and values; returns all that this pass attends to."""
        while len(self.pool.layers) <= layer:
            self.pool.layers.append(_Layer())
        self.pool.layers[layer].put(self.target_slots, states, self.pool.capacity)
        return self.pool.layers[layer].get(self.visible, states)


def _cache_type() -> type:
    """Defines the class on first use, because importing Transformers is slow."""
    from transformers import Cache

    class PooledCache(Cache):  # type: ignore[misc]
        """Adapts a pass to the Transformers cache interface."""

        def __init__(self, reading: CachePass) -> None:
            super().__init__(layers=[])
            self._reading = reading

        def update(self, keys: Any, values: Any, layer: int, *_: Any, **__: Any) -> tuple[Any, Any]:
            return self._reading.exchange(layer, (keys, values))

        def get_seq_length(self, *_: Any) -> int:
            return int(self._reading.visible.shape[1])

    return PooledCache


def _block_keys(ids: Sequence[int]) -> Iterator[int]:
    """Yields one hash per whole block, of all tokens up to its end."""
    key = 0
    for begin in range(0, len(ids) - _BLOCK + 1, _BLOCK):
        key = hash((key, *ids[begin : begin + _BLOCK]))
        yield key
