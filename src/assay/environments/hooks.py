"""What an in-process world may offer so that its checks can be proved sound. Each hook is a method of the world.

A world gives the hooks that it can, as methods beside those of `World`; what it does not give is reported as not
tested. Hooks that give calls are asked on a fresh world, whose calls they are; nothing is done to it by asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from assay.records import ToolCall

__all__ = ["Collects", "DoesNothing", "Perturbs", "Shortcuts", "SolvesItself"]


@runtime_checkable
class SolvesItself(Protocol):
    """A world that knows a solution."""

    def oracle(self) -> Sequence[ToolCall]:
        """Calls that solve the task, in order, from the world's first state."""
        ...


@runtime_checkable
class DoesNothing(Protocol):
    """A world that knows ways to look busy."""

    def null(self) -> Mapping[str, Sequence[ToolCall]]:
        """Name to calls that are no work: they must not pass. `nothing` is tried for every world anyway."""
        ...


@runtime_checkable
class Perturbs(Protocol):
    """A world that knows wrong solutions."""

    def perturb(self, seed: int) -> Mapping[str, Sequence[ToolCall]]:
        """Name to calls that end somewhere else than the solution does; the same seed gives the same ones."""
        ...


@runtime_checkable
class Shortcuts(Protocol):
    """A world that knows acts after which the task is surely not done, whatever they say of themselves."""

    def shortcuts(self, seed: int) -> Mapping[str, Sequence[ToolCall]]:
        """Name to calls after which nothing is solved: they must not pass, and one that passes is a hole. The same
        seed gives the same ones."""
        ...


@runtime_checkable
class Collects(Protocol):
    """A world that can tell more of itself than its facts."""

    def collect(self) -> dict[str, Any]:
        """All that the world became, as JSON data: two worlds that are equal in it are equal to everybody. By it a
        wrong solution that ends where the right one does is told from one that is paid wrongly."""
        ...
