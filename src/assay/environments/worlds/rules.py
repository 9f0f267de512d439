"""What the families share: knobs, typed acts, a state that is one Struct, snapshots, digests and the budget of turns.

A family gives its knobs, its acts and its state as Structs, and one method an act; everything that `TextWorld` promises
of wrong acts, copies and names follows from here. Nothing in it is needed to write a world: `TextWorld` is a protocol.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from copy import copy
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import msgspec
from blake3 import blake3

from assay.environments.interface import ToolSpec
from assay.environments.schemas import flat_schema
from assay.records import DIGEST_PREFIX, canonical_bytes

from .interface import Act, Turn

__all__ = ["OVER", "Rules", "WorldConfig", "read_config"]

OVER = "the episode is over: no act counts any more"
_ENCODER = msgspec.json.Encoder(order="sorted")
N = TypeVar("N", bound=msgspec.Struct)
K = TypeVar("K", bound="WorldConfig")


class WorldConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every family can be turned by."""

    turns: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    """Acts that are allowed; beyond them the episode is cut. 0: the family's own default."""
    solvable: bool = True
    """False makes the twin of a world that cannot be solved, and does not say so."""


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that changes in a world, and which world it is."""

    made: str
    seed: int
    used: int
    ended: bool
    cut: bool
    now: msgspec.Raw


def read_config(kind: type[K], parameters: Mapping[str, Any], name: str) -> K:
    """Reads parameters. Raises `ValueError` that names the parameter, what it must be, and which there are."""
    known = kind.__struct_fields__
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"the world {name!r} has no option {', '.join(map(repr, unknown))}; there are {', '.join(known)}"
        )
    try:
        return msgspec.convert(dict(parameters), kind)
    except (msgspec.ValidationError, ValueError) as exc:
        raise ValueError(f"the world {name!r}: {exc}; there are the knobs {', '.join(known)}") from exc


class Rules(Generic[K, N]):
    """A text world of which a family says what is its own.

    Args:
        parameters: Fields of `WorldConfig`.
        seed: Which world.

    A family defines the class attributes below, `generate`, `render`, `brief`, `facts`, `oracle`, `progress`, and for
    each act `NAME` of `acts` a method `do_NAME(given) -> Turn`.
    """

    name: ClassVar[str]
    WorldConfig: ClassVar[type[Any]]
    Now: ClassVar[type[Any]]
    """The Struct of what changes. It is mutable, and plain data all through."""
    acts: ClassVar[dict[str, type[msgspec.Struct]]]
    """Name of a tool to the Struct of its arguments, whose docstring is the tool's description."""
    path_facts: ClassVar[frozenset[str]] = frozenset({"turns"})
    """Facts that tell of the way and not of what the world became."""

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        self.config: K = read_config(self.WorldConfig, parameters, self.name)
        self.seed = seed
        self.reset()

    def reset(self, seed: int | None = None) -> str:
        if seed is not None:
            self.seed = seed
        self.used = 0
        self.ended = self.cut = False
        self._key: bytes | None = None
        self.now: N
        self.limit = self.config.turns
        self.generate(random.Random(f"{self.name}/{self.seed}"))
        self._doers = {name: (kind, getattr(self, f"do_{name}")) for name, kind in self.offered().items()}
        return self.render()

    # What a family says of itself.

    def generate(self, draw: random.Random) -> None:
        """Makes the world: sets what never changes, `now`, and `limit` where that is 0. The same draws give the same
        world."""
        raise NotImplementedError

    def render(self) -> str:
        """What is to be seen now."""
        raise NotImplementedError

    def brief(self) -> str:
        """What is asked for, in words: the task's text, before what is to be seen at first."""
        raise NotImplementedError

    def constants(self) -> Any:
        """What makes this world this one and never changes in it, as plain JSON data."""
        raise NotImplementedError

    def solved(self) -> bool:
        """Whether the task is truly done."""
        raise NotImplementedError

    def extra_facts(self) -> dict[str, Any]:
        """Further facts."""
        return {}

    def oracle(self) -> Act | None:
        raise NotImplementedError

    def progress(self) -> float | None:
        return 1.0 if self.solved() else None

    def choices(self) -> list[Act]:
        return []

    def offered(self) -> dict[str, type[msgspec.Struct]]:
        """The acts of this very world."""
        return self.acts

    # What follows.

    @property
    def over(self) -> bool:
        """Whether no act counts any more."""
        return self.ended or self.cut

    def tools(self) -> tuple[ToolSpec, ...]:
        return tuple(_spec(name, kind) for name, kind in self.offered().items())

    def act(self, name: str, arguments: dict[str, Any]) -> Turn:
        if self.ended or self.cut:
            return Turn(OVER, 0.0, self.ended, self.cut, True)
        self.used += 1
        doer = self._doers.get(name)
        if doer is None:
            turn = Turn(f"there is no tool {name[:80]!r}; there are {', '.join(self._doers)}", error=True)
        else:
            try:
                turn = doer[1](msgspec.convert(arguments, doer[0]))
            except (msgspec.ValidationError, RecursionError) as exc:
                turn = Turn(f"wrong arguments for {name}: {exc}", error=True)
        if turn.terminated:
            self.ended = True
        elif self.used >= self.limit:
            self.cut = True
            return turn._replace(truncated=True)
        return turn

    def snapshot(self) -> bytes:
        now = msgspec.Raw(_ENCODER.encode(self.now))
        return _ENCODER.encode(_Snapshot(self._identity(), self.seed, self.used, self.ended, self.cut, now))

    def restore(self, state: bytes) -> None:
        try:
            kept = msgspec.json.decode(state, type=_Snapshot)
            now = msgspec.json.decode(kept.now, type=self.Now)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
            raise ValueError(f"these bytes are no snapshot of a world {self.name!r}: {exc}") from exc
        if kept.made != self._identity():
            raise ValueError(f"the snapshot is of {kept.made[:200]}, and this world is {self._identity()}")
        if kept.seed != self.seed:
            self.reset(kept.seed)
        self.check(now)
        was, self.now = self.now, now
        try:
            self.resume()
        except ValueError:
            self.now = was
            self.resume()
            raise
        self.used, self.ended, self.cut = kept.used, kept.ended, kept.cut

    def resume(self) -> None:
        """What else must follow `now`, once that was restored or forked; for a world that holds somebody else's."""

    def position_key(self) -> bytes:
        """Where the world is, as bytes that are equal for equal places."""
        return _ENCODER.encode(self.now)

    def check(self, now: N) -> None:
        """Raises `ValueError` where a restored state could not be one of this world."""

    def fork(self) -> Self:
        other = copy(self)
        other.now = msgspec.json.decode(_ENCODER.encode(self.now), type=self.Now)
        other._doers = {name: (kind, getattr(other, f"do_{name}")) for name, (kind, _) in self._doers.items()}
        other.resume()
        return other

    def state(self) -> str:
        key = self._key
        if key is None:
            config = {k: v for k, v in msgspec.to_builtins(self.config).items() if k not in {"turns", "solvable"}}
            key = self._key = blake3(canonical_bytes([self.name, config, self.constants()])).digest()
        digest: str = blake3(key + (b"1" if self.ended else b"0") + self.position_key()).hexdigest()
        return DIGEST_PREFIX + digest

    def facts(self) -> dict[str, Any]:
        return {"solved": self.solved(), "turns": self.used, **self.extra_facts()}

    def dedup_key(self) -> str:
        """Equal for worlds that are one to who acts in them; by it tasks are parted that must not be alike."""
        return self.state()

    def _identity(self) -> str:
        return f"{self.name} {_ENCODER.encode(self.config).decode()}"


@cache
def _spec(name: str, kind: type[msgspec.Struct]) -> ToolSpec:
    return ToolSpec(name, " ".join((kind.__doc__ or "").split()), flat_schema(kind))
