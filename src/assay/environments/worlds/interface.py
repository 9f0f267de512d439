"""Protocol of text worlds: turn-based environments in this process that support reset, snapshot, fork and oracle.

A text world is not a sandbox: agents reach it only through the JSON arguments of tool calls. It knows nothing of
attempts, records or models; `played.PlayedWorld` adapts it to `rollout`.

Invariant: a world is a pure function of parameters, seed and acts. It reads no clock, no file and no other randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from assay.environments.interface import ToolSpec

Act: TypeAlias = tuple[str, dict[str, Any]]
"""Tool name and arguments."""


class Turn(NamedTuple):
    """Result of one act."""

    observation: str
    reward: float = 0.0
    """Reward that the world pays for this act; checks decide whether it was earned."""
    terminated: bool = False
    """The world ended by itself: goal reached, game lost, claim made."""
    truncated: bool = False
    """The limit of acts is reached; unlike `terminated`, nothing was decided."""
    error: bool = False
    """Invalid act: unknown tool, wrong arguments, or the world was over. The world's state is unchanged."""


class TextWorld(Protocol):
    """A turn-based world. Built as `World(parameters: dict, seed: int)`, which also resets it.

    The class attribute `WorldConfig` is a frozen Struct whose fields are the difficulty parameters. Invalid values
    raise a `ValueError` that lists the allowed ones.
    """

    def reset(self, seed: int | None = None) -> str:
        """Starts a new episode and returns the first observation; with a seed, of another world of the same options."""

    def tools(self) -> tuple[ToolSpec, ...]:
        """Returns the tools in a stable order; constant during one episode."""

    def act(self, name: str, arguments: dict[str, Any]) -> Turn:
        """Executes one act. Never raises: an invalid act is a turn with `error`, and uses up a turn."""

    def snapshot(self) -> bytes:
        """Returns the world's complete state as data; reading it executes no code."""

    def restore(self, state: bytes) -> None:
        """Restores a snapshot of a world of the same class and parameters. Raises `ValueError` for other bytes."""

    def fork(self) -> Self:
        """Returns an independent copy of the world."""

    def state(self) -> str:
        """Returns a content address of the state.

        Equal exactly if the same acts lead to the same states from here. The number of used turns is excluded, so that
        a state keeps its address however late it is reached.
        """

    def facts(self) -> dict[str, Any]:
        """Returns the final state as plain JSON, for checks. `solved` is always present and true to the state."""

    def oracle(self) -> Act | None:
        """Returns the first act of a shortest solution; None without a solution or once the world is over."""

    def progress(self) -> float | None:
        """Returns the share of the solution done, in [0, 1] (1 is solved); None if unknown."""


@runtime_checkable
class OffersChoices(Protocol):
    """Optional protocol of text worlds, for random and dishonest agents."""

    def choices(self) -> Sequence[Act]:
        """Returns possible acts, at most 100; all of them if they are few."""


@runtime_checkable
class NamesFacts(Protocol):
    """Optional protocol of text worlds whose solution needs facts that actors have to find or tell."""

    def needed_facts(self) -> tuple[str, ...]:
        """Returns the texts of these facts, as an observation or a message shows them."""


@runtime_checkable
class SplitsKnowledge(Protocol):
    """Optional protocol of text worlds whose knowledge is split among the actors of a team."""

    @property
    def parts(self) -> int:
        """Number of parts; together they hold all that a single agent is told. 0: nothing is split."""

    def view(self, part: int) -> str:
        """Returns the task as the holder of a part reads it, from 1 to `parts`; of 0, what everybody may know."""
