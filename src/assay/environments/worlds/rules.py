"""Base of the world families: typed options and acts, a state in one Struct, snapshots, digests and the limit of turns.

A family defines options, acts and state as Structs and one method per act; `Rules` fulfils the rest of `TextWorld`.
Worlds may implement the protocol without it.
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

OVER = "the episode is over: no act counts any more"
_ENCODER = msgspec.json.Encoder(order="sorted")
N = TypeVar("N", bound=msgspec.Struct)
K = TypeVar("K", bound="WorldConfig")


class WorldConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of every family."""

    turns: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    """Maximum number of acts, after which the episode is truncated. 0 means the family's default."""
    solvable: bool = True
    """False makes an unsolvable twin of a world, without saying so."""


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    """Mutable state of a world, and its identity."""

    made: str
    seed: int
    used: int
    ended: bool
    cut: bool
    now: msgspec.Raw


def read_config(kind: type[K], parameters: Mapping[str, Any], name: str) -> K:
    """Reads parameters. Raises `ValueError` that names the parameter, its type and the known ones."""
    known = kind.__struct_fields__
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"the world {name!r} has no option {', '.join(map(repr, unknown))}; there are {', '.join(known)}"
        )
    try:
        return msgspec.convert(dict(parameters), kind)
    except (msgspec.ValidationError, ValueError) as exc:
        raise ValueError(f"the world {name!r}: {exc}; known options: {', '.join(known)}") from exc


class Rules(Generic[K, N]):
    """Base class of text worlds, built from the fields of `WorldConfig` and a seed.

    A family defines the class attributes below, `generate`, `render`, `brief`, `facts`, `oracle`, `progress`, and for
    each act `NAME` of `acts` a method `do_NAME(given) -> Turn`.
    """

    name: ClassVar[str]
    WorldConfig: ClassVar[type[Any]]
    Now: ClassVar[type[Any]]
    """Struct of the mutable state; plain data throughout."""
    acts: ClassVar[dict[str, type[msgspec.Struct]]]
    """Tool name to the Struct of its arguments, whose docstring is the tool's description."""
    path_facts: ClassVar[frozenset[str]] = frozenset({"turns"})
    """Facts about the path taken, not about the final state."""

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
        """Generates the world: sets the constants, `now`, and `limit` if that is 0. Deterministic in `draw`."""
        raise NotImplementedError

    def render(self) -> str:
        """Returns the current observation."""
        raise NotImplementedError

    def brief(self) -> str:
        """Returns the task's text before the first observation."""
        raise NotImplementedError

    def constants(self) -> Any:
        """Returns the constant identity of this world as plain JSON data."""
        raise NotImplementedError

    def solved(self) -> bool:
        """Returns whether the task is truly done."""
        raise NotImplementedError

    def extra_facts(self) -> dict[str, Any]:
        return {}

    def oracle(self) -> Act | None:
        raise NotImplementedError

    def progress(self) -> float | None:
        return 1.0 if self.solved() else None

    def choices(self) -> list[Act]:
        return []

    def offered(self) -> dict[str, type[msgspec.Struct]]:
        """Returns the acts of this very world."""
        return self.acts

    # What follows.

    @property
    def over(self) -> bool:
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
        """Restores state outside `now` after a restore or fork, in worlds that wrap another library."""

    def position_key(self) -> bytes:
        """Returns bytes that are equal for equal states."""
        return _ENCODER.encode(self.now)

    def check(self, now: N) -> None:
        """Raises `ValueError` for a restored state that is impossible in this world."""

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
        """Returns a key that is equal for worlds an agent cannot tell apart; it separates `train` from `test`."""
        return self.state()

    def _identity(self) -> str:
        return f"{self.name} {_ENCODER.encode(self.config).decode()}"


@cache
def _spec(name: str, kind: type[msgspec.Struct]) -> ToolSpec:
    return ToolSpec(name, " ".join((kind.__doc__ or "").split()), flat_schema(kind))
