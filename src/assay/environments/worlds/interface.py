"""What a text world is: a turn-based environment in this process that can be reset, kept, forked, named and solved.

Not a sandbox: no agent code runs in it, and what an agent writes reaches it as the JSON arguments of a tool call alone.
A world knows nothing of attempts, records or models; `played.PlayedWorld` makes it an environment that `rollout` runs.

Invariant: a world is a pure function of its parameters, its seed and the acts made in it: it reads no clock, no file
and no randomness of its own, so that doing the same acts again leads to the same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from assay.environments.interface import ToolSpec

__all__ = ["Act", "OffersChoices", "TextWorld", "Turn"]

Act: TypeAlias = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


class Turn(NamedTuple):
    """What one act brought."""

    observation: str
    reward: float = 0.0
    """What the world itself pays for this act; whether it was earned is for checks to say."""
    terminated: bool = False
    """The world came to an end of its own: reached, lost, declared."""
    truncated: bool = False
    """The acts that the world allows are used up; apart from `terminated`, because nothing was decided."""
    error: bool = False
    """The act was none: no such tool, wrong arguments, or the world was over. The world's state is as before."""


class TextWorld(Protocol):
    """A turn-based world. Built as `World(parameters: dict, seed: int)`, which also resets it.

    The class attribute `WorldConfig` is a frozen Struct whose fields are the difficulty parameters. Invalid
    values raise a `ValueError` that lists the allowed ones.
    """

    def reset(self, seed: int | None = None) -> str:
        """Begins anew and returns the first observation; with a seed, another world of the same knobs."""
        ...

    def tools(self) -> tuple[ToolSpec, ...]:
        """The acts that there are, in a stable order; the same during one episode."""
        ...

    def act(self, name: str, arguments: dict[str, Any]) -> Turn:
        """Does one act. Whatever name and arguments are given, nothing is raised: a wrong act is a turn with `error`,
        and it uses up a turn like any other."""
        ...

    def snapshot(self) -> bytes:
        """All that the world is now, as data: no code is run by reading it."""
        ...

    def restore(self, state: bytes) -> None:
        """Becomes what a world of the same class and parameters was at `snapshot`. Raises `ValueError` for bytes that
        are no snapshot of such a world."""
        ...

    def fork(self) -> Self:
        """Another world that is the same now; what is done in one is not done in the other."""
        ...

    def state(self) -> str:
        """A content address of where the world is. Two worlds have the same one exactly if the same acts lead to the
        same places from here; how many turns were used is no part of it, so that a place has one name however late it
        is reached."""
        ...

    def facts(self) -> dict[str, Any]:
        """What the world became, as plain JSON: what checks judge. `solved` is always there, and is the truth."""
        ...

    def oracle(self) -> Act | None:
        """An act that begins a shortest way to the goal from here; None where there is none, or the world is over."""
        ...

    def progress(self) -> float | None:
        """How much of the way is done, from 0 to 1 (solved); None where nothing can be said."""
        ...


@runtime_checkable
class OffersChoices(Protocol):
    """What a text world may say besides, so that others can try what a random or a dishonest agent would do."""

    def choices(self) -> Sequence[Act]:
        """Acts that are possible from here, a hundred at most: every one where they are few."""
        ...
