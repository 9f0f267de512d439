"""Whether an attempt gets over its errors.

An error is recovered from when a later act that is equivalent to the one that failed comes to no error. TopoCurate
(arXiv 2603.01714) names reflective recovery as what makes an attempt worth learning from and publishes no formula; this
one is ours. It is told apart from repetition: doing the very same again until it works is a `repeated` recovery.

Range of the share: [0, 1], None where nothing failed. When it misleads: an error that is rightly left alone (a file
that is not there, so the agent looks elsewhere) counts as not recovered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from .interface import Action
from .outcomes import is_error
from .states import State, equivalent, states_of

__all__ = ["Recovered", "Recovery", "recovery_of"]


class Recovered(NamedTuple):
    """Positions of the act that failed and of the later one that did not."""

    failed: int
    mended: int
    repeated: bool
    """Whether the later act says exactly the same."""


class Recovery(msgspec.Struct, frozen=True):
    """Of one attempt."""

    errors: tuple[int, ...]
    """Positions of the acts that came to an error."""
    recovered: tuple[Recovered, ...]

    @property
    def share(self) -> float | None:
        """Errors recovered from over errors."""
        return len(self.recovered) / len(self.errors) if self.errors else None

    @property
    def reflective(self) -> float | None:
        """The same, of recoveries that changed something."""
        changed = sum(not each.repeated for each in self.recovered)
        return changed / len(self.errors) if self.errors else None


def recovery_of(actions: Sequence[Action], states: Sequence[State] | None = None) -> Recovery:
    """The errors of an attempt, and which of them it got over."""
    held = states_of(actions) if states is None else states
    failed = [is_error(action) for action in actions]
    errors = tuple(position for position, error in enumerate(failed) if error)
    recovered = []
    for position in errors:
        for later in range(position + 1, len(actions)):
            if not failed[later] and _same_aim(held[position], held[later]):
                repeated = held[position].what == held[later].what and held[position].file == held[later].file
                recovered.append(Recovered(position, later, repeated))
                break
    return Recovery(errors, tuple(recovered))


def _same_aim(first: State, second: State) -> bool:
    """Equivalent but for the stage, which changes with what was done in between."""
    return equivalent(first, msgspec.structs.replace(second, stage=first.stage))
