"""Keys and values of tokens, kept between calls, so that a conversation that goes on is read from where it ended.

Every token has a place of its own in one table a layer. A conversation is a list of places, and two that begin alike
share them; a place is free again when nobody holds it. Conversations that ended are kept, the least lately used is
dropped first, and all of them when the weights change.

Invariant: a place holds what the model computed for the token after exactly the tokens before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

__all__ = ["Reading", "Talk", "TokenPool"]

_BLOCK = 8
"""Tokens that are looked up at once; a shorter beginning is not looked for."""
_NOWHERE = 0
"""The place that padding is written to."""
_FIRST = 1024
_MOST = 4096
"""Conversations that have ended, at most."""
Places = NDArray[np.int64]


class Talk:
    """A conversation as far as the model has read it: `places[i]` is that of `ids[i]`; `ids` may be longer by what
    was not read yet."""

    def __init__(self, ids: Sequence[int], places: Places) -> None:
        self.ids = list(ids)
        self.places = places
        self.keys: list[int] = []

    def alike(self, ids: Sequence[int], least: int) -> int:
        """How many tokens that were read are the first of `ids`; 0 where fewer than `least`."""
        most = min(len(self.places), len(ids))
        if self.ids[:least] != list(ids[:least]) or most < least:
            return 0
        count = least
        while count < most and self.ids[count] == ids[count]:
            count += 1
        return count


class TokenPool:
    """Places, and who holds them.

    Args:
        most_bytes: What conversations that have ended may take.
    """

    def __init__(self, most_bytes: int) -> None:
        self.layers: list[_Layer] = []
        self._most_bytes = most_bytes
        self._holders: NDArray[np.int32] = np.zeros(_FIRST, dtype=np.int32)
        self._free: list[int] = list(range(_FIRST - 1, _NOWHERE, -1))
        self._known: dict[int, Talk] = {}
        self._ended: OrderedDict[int, Talk] = OrderedDict()

    @property
    def capacity(self) -> int:
        """Places, held or free."""
        return len(self._holders)

    @property
    def held(self) -> int:
        """Places that are held."""
        return self.capacity - 1 - len(self._free)

    def begin(self, prompt: Sequence[int]) -> Talk:
        """A conversation that shares the longest known beginning of `prompt`, all but its last token at most."""
        found, common = self._longest(prompt)
        common = min(common, len(prompt) - 1)
        places = np.empty(0, dtype=np.int64)
        if found is not None and common > 0:
            places = found.places[:common].copy()
            self._holders[places] += 1
            if id(found) in self._ended:
                self._ended.move_to_end(id(found))
        return Talk(prompt, places)

    def grow(self, talk: Talk, count: int) -> Places:
        """Places for the next `count` tokens of `talk`."""
        if len(self._free) < count:
            self._make_room(count)
        taken = np.array([self._free.pop() for _ in range(count)], dtype=np.int64)
        self._holders[taken] = 1
        talk.places = np.concatenate([talk.places, taken])
        return taken

    def tell(self, talk: Talk) -> None:
        """Lets others share what `talk` has read."""
        for number, key in enumerate(_keys(talk.ids[: len(talk.places)])):
            if number >= len(talk.keys):
                talk.keys.append(key)
                self._known[key] = talk  # the newest reaches furthest, and is dropped last

    def end(self, talk: Talk) -> None:
        """Keeps a conversation that is over for who may go on with it."""
        self.tell(talk)
        self._ended[id(talk)] = talk
        while len(self._ended) > _MOST or (self._ended and self.held * self._bytes() > self._most_bytes):
            self._drop_oldest()

    def forget(self, talk: Talk) -> None:
        """Gives up what a conversation holds, for example because its reading failed."""
        self._ended.pop(id(talk), None)
        for key in talk.keys:
            if self._known.get(key) is talk:
                del self._known[key]
        self._holders[talk.places] -= 1
        self._free += talk.places[self._holders[talk.places] == 0].tolist()
        talk.places, talk.keys = talk.places[:0], []

    def clear(self) -> None:
        """Drops all conversations that have ended."""
        while self._ended:
            self._drop_oldest()

    def _longest(self, prompt: Sequence[int]) -> tuple[Talk | None, int]:
        found, common = None, 0
        for number, key in enumerate(_keys(prompt)):
            known = self._known.get(key)
            if known is None:
                break
            alike = known.alike(prompt, (number + 1) * _BLOCK)
            if alike > common:
                found, common = known, alike
        return found, common

    def _drop_oldest(self) -> None:
        _, talk = self._ended.popitem(last=False)
        self.forget(talk)

    def _make_room(self, count: int) -> None:
        while self._ended and len(self._free) < count and 2 * self.capacity * self._bytes() > self._most_bytes:
            self._drop_oldest()
        if len(self._free) >= count:
            return
        before = self.capacity
        after = max(2 * before, before + count)
        self._holders = np.concatenate([self._holders, np.zeros(after - before, dtype=np.int32)])
        self._free += range(after - 1, before - 1, -1)

    def _bytes(self) -> int:
        """Bytes that one token takes."""
        return sum(layer.bytes_each for layer in self.layers)


class _Layer:
    """One layer's table: keys and values of shape (places, heads * size of a head)."""

    def __init__(self) -> None:
        self._tables: list[torch.Tensor] = []
        self.bytes_each = 0

    def put(self, at: torch.Tensor, states: Sequence[torch.Tensor], capacity: int) -> None:
        """Writes states of shape (requests, heads, tokens, size) to the places `at`, of shape (requests * tokens,)."""
        flat = [state.transpose(1, 2).flatten(0, 1).flatten(1) for state in states]
        if not self._tables:
            self._tables = [rows.new_zeros((capacity, rows.shape[1])) for rows in flat]
            self.bytes_each = sum(rows.shape[1] * rows.element_size() for rows in flat)
        elif len(self._tables[0]) < capacity:
            self._tables = [_grown(table, capacity) for table in self._tables]
        for table, rows in zip(self._tables, flat, strict=True):
            table.index_copy_(0, at, rows)

    def get(self, at: torch.Tensor, states: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """What stands at the places `at` of shape (requests, tokens), shaped as `states` are."""
        keys, values = (
            table.index_select(0, at.flatten()).view(*at.shape, state.shape[1], state.shape[3]).transpose(1, 2)
            for table, state in zip(self._tables, states, strict=True)
        )
        return keys, values


def _grown(table: torch.Tensor, capacity: int) -> torch.Tensor:
    grown = table.new_zeros((capacity, table.shape[1]))
    grown[: len(table)] = table
    return grown


class Reading:
    """One pass over some conversations: where its new tokens are written, and which ones they see.

    Args:
        pool: The tables.
        written: Of shape (requests, tokens); padding goes nowhere.
        seen: Of shape (requests, longest conversation).
        device: The model's.
    """

    def __init__(self, pool: TokenPool, written: Places, seen: Places, device: Any) -> None:
        import torch

        self.pool = pool
        self.written = torch.from_numpy(written).to(device).flatten()
        self.seen = torch.from_numpy(seen).to(device)

    def cache(self) -> Any:
        """The same as Transformers wants it."""
        return _cache_type()(self)

    def exchange(self, layer: int, states: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Keeps a layer's new keys and values; all that this pass sees."""
        while len(self.pool.layers) <= layer:
            self.pool.layers.append(_Layer())
        self.pool.layers[layer].put(self.written, states, self.pool.capacity)
        return self.pool.layers[layer].get(self.seen, states)


def _cache_type() -> type:
    """Made late: Transformers is heavy."""
    from transformers import Cache

    class PooledCache(Cache):  # type: ignore[misc]
        """A pass, as the model knows caches."""

        def __init__(self, reading: Reading) -> None:
            super().__init__(layers=[])
            self._reading = reading

        def update(self, keys: Any, values: Any, layer: int, *_: Any, **__: Any) -> tuple[Any, Any]:
            return self._reading.exchange(layer, (keys, values))

        def get_seq_length(self, *_: Any) -> int:
            return int(self._reading.seen.shape[1])

    return PooledCache


def _keys(ids: Sequence[int]) -> Iterator[int]:
    """One key for each whole block, which stands for everything up to its end."""
    key = 0
    for begin in range(0, len(ids) - _BLOCK + 1, _BLOCK):
        key = hash((key, *ids[begin : begin + _BLOCK]))
        yield key
