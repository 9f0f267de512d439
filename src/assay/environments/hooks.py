"""Hooks that an in-process world may implement so that admission can prove its checks sound.

Hooks are methods beside those of `World`; a missing one is reported as not
tested. Hooks that return calls are called on a fresh world, for which the calls are meant; they must not change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from assay.records import ToolCall


@runtime_checkable
class SolvesItself(Protocol):
    """A world that knows a solution."""

    def oracle(self) -> Sequence[ToolCall]:
        """Returns calls that solve the task, in order, from the initial state."""


@runtime_checkable
class DoesNothing(Protocol):
    """A world that knows calls that do no work."""

    def null(self) -> Mapping[str, Sequence[ToolCall]]:
        """Returns named sequences of calls that do no work and must not pass. `nothing` is always tried."""


@runtime_checkable
class Perturbs(Protocol):
    """A world that knows wrong solutions."""

    def perturb(self, seed: int) -> Mapping[str, Sequence[ToolCall]]:
        """Returns named sequences of calls that end in another state than the solution, deterministic in the seed."""


@runtime_checkable
class Shortcuts(Protocol):
    """A world that knows acts after which the task is certainly unsolved."""

    def shortcuts(self, seed: int) -> Mapping[str, Sequence[ToolCall]]:
        """Returns named calls that solve nothing, deterministic in the seed. One that passes is a hole in the check."""


@runtime_checkable
class SolvesElsewhere(Protocol):
    """A world whose solution is given, and that knows how it would read in a world of another seed."""

    def elsewhere(self) -> Sequence[ToolCall]:
        """Returns the calls of somebody who knows the solution by heart from another seed; they must not pass."""


@runtime_checkable
class SolvesOtherwise(Protocol):
    """A world that knows several right solutions."""

    def variants(self, seed: int) -> Mapping[str, Sequence[ToolCall]]:
        """Returns named calls that solve the task in other ways, deterministic in the seed. A check that rejects one is
        too strict."""


@runtime_checkable
class Collects(Protocol):
    """A world that can report its complete state, beyond its facts."""

    def collect(self) -> dict[str, Any]:
        """Returns the complete state as JSON data: worlds with equal data are indistinguishable. It separates a wrong
        solution that reaches the right state from one that is rewarded wrongly."""
