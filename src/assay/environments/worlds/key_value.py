"""Key-value store: follow references from key to key, then write the values found. Reading is the burden."""

from __future__ import annotations

import itertools
import random
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Rules, WorldConfig

Word = Annotated[str, Meta(max_length=200)]
_MOST_KEYS = 1_000


class KeyValueConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `key-value`. `turns` 0 means three times the necessary acts."""

    hops: Annotated[int, Meta(ge=1, le=20)] = 2
    """Keys to read per value: each but the last holds the name of the next."""
    writes: Annotated[int, Meta(ge=1, le=20)] = 1
    """Number of values to write."""
    others: Annotated[int, Meta(ge=0, le=400)] = 6
    """Number of unrelated keys."""


class _Get(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read the value of a key."""

    key: Word


class _Set(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Write the value of a key."""

    key: Word
    value: Word


class _Submit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Say that all is written. This ends it."""


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    values: dict[str, str]
    read: list[str]
    """Keys of the chains already read, sorted: the agent's knowledge."""
    submitted: bool = False


class KeyValue(Rules[KeyValueConfig, _Now]):
    """Key-value world."""

    name: ClassVar[str] = "key-value"
    WorldConfig = KeyValueConfig
    Now = _Now
    path_facts = frozenset({"turns", "submitted"})
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"get": _Get, "set": _Set, "submit": _Submit}

    def generate(self, draw: random.Random) -> None:
        config = self.config
        names = [f"k{number}" for number in draw.sample(range(100, 1000), config.hops * config.writes + config.others)]
        self._chains = [names[at * config.hops : (at + 1) * config.hops] for at in range(config.writes)]
        values = {name: str(draw.randint(10, 99)) for name in names}
        for chain in self._chains:
            values |= {name: f"@{after}" for name, after in itertools.pairwise(chain)}
        self._wanted = {f"out{number}": values[chain[-1]] for number, chain in enumerate(self._chains, 1)}
        if not config.solvable:
            del values[draw.choice(self._chains)[-1]]  # what leads to it leads nowhere
        self._first = dict(values)
        self.limit = config.turns or 3 * self._shortest()
        self.now = _Now(dict(sorted(values.items())), [])

    def _shortest(self) -> int:
        return self.config.writes * (self.config.hops + 1)

    def brief(self) -> str:
        return "Write to each key of the list what its chain leads to. A value that begins with @ names the next key."

    def render(self) -> str:
        return "; ".join(
            f"{key}: the chain from {chain[0]}" for key, chain in zip(self._wanted, self._chains, strict=True)
        )

    def do_get(self, given: _Get) -> Turn:
        value = self.now.values.get(given.key)
        if any(given.key in chain for chain in self._chains) and given.key not in self.now.read:
            self.now.read = sorted([*self.now.read, given.key])
        return Turn(f"there is no key {given.key[:40]!r}", error=True) if value is None else Turn(value)

    def do_set(self, given: _Set) -> Turn:
        """Writes a value; the reward comes with `submit`."""
        if given.key not in self.now.values and len(self.now.values) >= _MOST_KEYS:
            return Turn(f"the store is full: {_MOST_KEYS} keys", error=True)
        self.now.values[given.key] = given.value
        return Turn("written")

    def do_submit(self, _: _Submit) -> Turn:
        self.now.submitted = True
        return Turn("right", 1.0, True) if self.solved() else Turn("wrong", 0.0, True)

    def constants(self) -> Any:
        return [self._chains, sorted(self._first.items()), self.config.solvable]

    def solved(self) -> bool:
        """Returns whether exactly the requested values were written."""
        return self.config.solvable and self.now.values == {**self._first, **self._wanted}

    def extra_facts(self) -> dict[str, Any]:
        changed = {key: value for key, value in self.now.values.items() if self._first.get(key) != value}
        return {"written": changed, "submitted": self.now.submitted, "shortest": self._shortest() + 1}

    def oracle(self) -> Act | None:
        """Reads what is necessary, writes the values and submits. None after an irreversible wrong write."""
        if self.over or not self.config.solvable:
            return None
        values = self.now.values
        if any(values.get(key) != value for key, value in self._first.items()) or values.keys() - {
            *self._first,
            *self._wanted,
        }:
            return None  # something that was to stay was changed
        for (key, value), chain in zip(self._wanted.items(), self._chains, strict=True):
            if values.get(key) == value:
                continue
            unread = next((name for name in chain if name not in self.now.read), None)
            return ("set", {"key": key, "value": value}) if unread is None else ("get", {"key": unread})
        return "submit", {}

    def progress(self) -> float | None:
        """Returns the share of necessary reads and writes done."""
        if not self.config.solvable:
            return None
        written = [self.now.values.get(key) == value for key, value in self._wanted.items()]
        read = sum(
            self.config.hops if done else sum(name in self.now.read for name in chain)
            for done, chain in zip(written, self._chains, strict=True)
        )
        return (read + sum(written)) / self._shortest()

    def choices(self) -> list[Act]:
        """Returns reads of every key, writes of known values, and `submit`."""
        if self.over:
            return []
        known = sorted({self.now.values.get(name, "") for name in self.now.read} - {""})
        reads: list[Act] = [("get", {"key": name}) for name in list(self._first)[:60]]
        writes: list[Act] = [("set", {"key": key, "value": value}) for key in self._wanted for value in known]
        return [*reads, *writes[:39], ("submit", {})]
