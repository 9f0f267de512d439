"""Wrappers that make a text world harder: failing tools, noisy and paraphrased texts, unsolvable twins.

A wrapper is a text world around another, so wrappers compose in any order; the innermost is named first. Randomness is
drawn from the seed and the turn, so replaying the acts meets the same disturbances. Wrappers that only disturb the path
(failures, noise, paraphrase) leave the state's address unchanged.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import msgspec
from blake3 import blake3
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.wrapping import TROUBLES, NoiseKind, Rate, disturb_text, read_wrappers, replace_words
from assay.records import DIGEST_PREFIX

from .interface import Act, OffersChoices, SplitsKnowledge, TextWorld, Turn
from .rules import OVER

DECLARE = "declare_unsolvable"


class _WrapperSnapshot(msgspec.Struct, forbid_unknown_fields=True):
    """Snapshot of a wrapper and of the world inside."""

    kind: str
    seed: int
    count: int
    mark: int
    inner: bytes


class Wrapper:
    """Wrapper base; changes nothing by itself."""

    kind: ClassVar[str]
    Options: ClassVar[type[Any]]

    def __init__(self, inner: TextWorld, options: Any, seed: int) -> None:
        self.inner, self.options, self.seed = inner, options, seed
        self.count = 0
        """Number of acts so far."""
        self.mark = 0
        """State of the wrapper itself."""
        self.path_facts = frozenset(getattr(inner, "path_facts", frozenset({"turns"})))

    def reset(self, seed: int | None = None) -> str:
        self.seed = self.seed if seed is None else seed
        self.count = self.mark = 0
        return self.transform(self.inner.reset(seed))

    @property
    def over(self) -> bool:
        return _is_over(self.inner)

    def transform(self, text: str) -> str:
        return text

    def brief(self) -> str:
        """Returns the transformed brief; empty if the world has none."""
        return str(getattr(self.inner, "brief", str)())

    @property
    def parts(self) -> int:
        """Number of parts of the knowledge of the world inside; 0 if it does not split it."""
        return int(getattr(self.inner, "parts", 0))

    def view(self, part: int) -> str:
        return self.transform(self.inner.view(part) if isinstance(self.inner, SplitsKnowledge) else "")

    def dedup_key(self) -> str:
        return str(getattr(self.inner, "dedup_key", self.inner.state)())

    def tools(self) -> tuple[ToolSpec, ...]:
        return self.inner.tools()

    def act(self, name: str, arguments: dict[str, Any]) -> Turn:
        self.count += 1
        turn = self.inner.act(name, arguments)
        return turn._replace(observation=self.transform(turn.observation))

    def draw(self) -> random.Random:
        """Returns the random generator of this turn."""
        return random.Random(f"{self.kind}/{self.seed}/{self.count}")

    def snapshot(self) -> bytes:
        return msgspec.json.encode(
            _WrapperSnapshot(self._identity(), self.seed, self.count, self.mark, self.inner.snapshot())
        )

    def restore(self, state: bytes) -> None:
        try:
            kept = msgspec.json.decode(state, type=_WrapperSnapshot)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
            raise ValueError(f"these bytes are no snapshot of a world in the wrapper {self.kind!r}: {exc}") from exc
        if kept.kind != self._identity():
            raise ValueError(f"the snapshot is of {kept.kind[:200]}, and this wrapper is {self._identity()}")
        self.inner.restore(kept.inner)
        self.seed, self.count, self.mark = kept.seed, kept.count, kept.mark

    def fork(self) -> Self:
        other = type(self)(self.inner.fork(), self.options, self.seed)
        other.count, other.mark = self.count, self.mark
        return other

    def state(self) -> str:
        return self.inner.state()

    def facts(self) -> dict[str, Any]:
        return self.inner.facts()

    def oracle(self) -> Act | None:
        return self.inner.oracle()

    def progress(self) -> float | None:
        return self.inner.progress()

    def choices(self) -> Sequence[Act]:
        return self.inner.choices() if isinstance(self.inner, OffersChoices) else []

    def _identity(self) -> str:
        return f"{self.kind} {msgspec.json.encode(self.options, order='sorted').decode()}"


class _FailuresOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: Rate = 0.1
    """Share of acts that fail."""
    in_row: Annotated[int, Meta(ge=1, le=100)] = 2
    """Maximum number of consecutive failures."""


class Failures(Wrapper):
    """Transient tool failures: the act is not executed, the answer says so, and a retry helps."""

    kind = "failures"
    Options = _FailuresOptions

    def act(self, name: str, arguments: dict[str, Any]) -> Turn:
        """Fails at random; `mark` counts the failures since the last executed act."""
        self.count += 1
        draw = self.draw()
        if self.mark < self.options.in_row and draw.random() < self.options.rate and not _is_over(self.inner):
            self.mark += 1
            return Turn(f"error: {draw.choice(TROUBLES)}; nothing was done", error=True)
        self.mark = 0
        return self.inner.act(name, arguments)


class _NoiseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: Rate = 0.2
    """Share of disturbed observations."""
    how: NoiseKind = "any"
    """Kind of noise: swapped letters, a missing word, an unrelated sentence, or a random one of these."""


class Noise(Wrapper):
    """Observations with typos, missing words or unrelated sentences."""

    kind = "noise"
    Options = _NoiseOptions

    def transform(self, text: str) -> str:
        draw = self.draw()
        if draw.random() >= self.options.rate:
            return text
        return disturb_text(text, self.options.how, draw)


class _ParaphraseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: Rate = 1.0
    """Share of replaceable words that are replaced; fixed for an episode."""


class Paraphrase(Wrapper):
    """Paraphrased task and observations; names of tools and values are unchanged."""

    kind = "paraphrase"
    Options = _ParaphraseOptions

    def transform(self, text: str) -> str:
        return replace_words(text, _SYNONYMS, self._choose)

    def brief(self) -> str:
        return self.transform(super().brief())

    def _choose(self, word: str, others: Sequence[str]) -> str | None:
        draw = random.Random(f"words/{self.seed}/{word}")
        return None if draw.random() >= self.options.rate else draw.choice(others)


_SYNONYMS = {
    "goal": ("target", "destination", "finish"),
    "blocked": ("no way through", "something is in the way", "it will not go"),
    "cells": ("squares", "fields"),
    "grid": ("board", "field of squares"),
    "reach": ("get to", "arrive at"),
    "open": ("free", "passable"),
    "wall": ("barrier", "obstacle"),
    "find": ("look for", "work out"),
    "numbers": ("figures", "integers"),
    "wrong": ("not right", "incorrect"),
    "table": ("sheet", "list"),
    "box": ("crate", "chest"),
    "room": ("chamber", "place"),
    "you": ("the player", "you"),
}


class _TwinOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Empty options."""


class Twin(Wrapper):
    """Possibly unsolvable world, solved by declaring that: adds the act `declare_unsolvable`.

    A world is unsolvable if its oracle has no solution at the start; the option `solvable=false` makes the twin of a
    solvable one. `mark` is 1 after the declaration.
    """

    kind = "twin"
    Options = _TwinOptions

    def __init__(self, inner: TextWorld, options: Any, seed: int) -> None:
        super().__init__(inner, options, seed)
        self._solvable = inner.oracle() is not None

    def reset(self, seed: int | None = None) -> str:
        transform = super().reset(seed)
        self._solvable = self.inner.oracle() is not None
        return transform

    def restore(self, state: bytes) -> None:
        kept = _seed_of(state)
        if kept is not None and kept != self.seed:
            self.reset(kept)
        super().restore(state)

    def fork(self) -> Self:
        other = super().fork()
        other._solvable = self._solvable
        return other

    @property
    def over(self) -> bool:
        return bool(self.mark) or _is_over(self.inner)

    def brief(self) -> str:
        return f"{super().brief()} If it cannot be done, call {DECLARE}."

    def tools(self) -> tuple[ToolSpec, ...]:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        return (*self.inner.tools(), ToolSpec(DECLARE, "Say that the task cannot be done. This ends it.", schema))

    def act(self, name: str, arguments: dict[str, Any]) -> Turn:
        self.count += 1
        if self.mark:
            return Turn(OVER, 0.0, True, False, True)
        if name != DECLARE or _is_over(self.inner):
            return self.inner.act(name, arguments)
        if arguments != {}:
            return Turn(f"wrong arguments for {DECLARE}: it takes none", error=True)
        self.mark = 1
        return Turn("declared unsolvable", 0.0 if self._solvable else 1.0, True)

    def state(self) -> str:
        inner = self.inner.state()
        return inner if not self.mark else DIGEST_PREFIX + str(blake3(f"declared {inner}".encode()).hexdigest())

    def facts(self) -> dict[str, Any]:
        """Counts a true declaration as solved."""
        facts = self.inner.facts()
        declared = bool(self.mark)
        solved = not self._solvable if declared else bool(facts.get("solved"))
        return {**facts, "solved": solved, "declared": declared}

    def oracle(self) -> Act | None:
        if self.mark or _is_over(self.inner):
            return None
        return self.inner.oracle() if self._solvable else (DECLARE, {})

    def progress(self) -> float | None:
        if self._solvable:
            return 0.0 if self.mark else self.inner.progress()
        return float(self.mark)

    def choices(self) -> Sequence[Act]:
        if self.mark or _is_over(self.inner):
            return []
        return [*super().choices(), (DECLARE, {})]


WRAPPERS: Mapping[str, type[Wrapper]] = {kind.kind: kind for kind in (Failures, Noise, Paraphrase, Twin)}


def wrap_world(world: TextWorld, specs: Any, seed: int) -> TextWorld:
    """Wraps a world; `specs` are `[{"kind": "failures", "rate": 0.1}, ...]`, innermost first.

    Raises `ValueError` for an unknown wrapper or option; the message lists the known ones.
    """
    for kind, options in read_wrappers(specs, WRAPPERS):
        world = WRAPPERS[kind](world, options, seed)
    return world


def _is_over(world: Any) -> bool:
    """Returns whether a world is over, without acting; falls back to the wrapped world."""
    return bool(getattr(world, "over", False))


def _seed_of(state: bytes) -> int | None:
    try:
        return msgspec.json.decode(state, type=_WrapperSnapshot).seed
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
