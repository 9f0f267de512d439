"""Whether an attempt gets over its errors.

An error is recovered from when a later act that is equivalent to the one that failed comes to no error. TopoCurate
(arXiv 2603.01714) names reflective recovery as what makes an attempt worth learning from and publishes no formula; this
one is ours. It is told apart from repetition: doing the very same again until it works is a `repeated` recovery.

Range of the share: [0, 1], None where nothing failed. When it misleads: an error that is rightly left alone (a file
that is not there, so the agent looks elsewhere) counts as not recovered.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec

from .interface import Action
from .outcomes import is_error
from .states import State, block, equivalent, states_of

__all__ = ["RecoveredAct", "Recovery", "recovery_of"]


_LOOKED_AT = 200
"""Later acts of the same kind that an error is compared with, so that a hostile record takes no quadratic time."""


class RecoveredAct(NamedTuple):
    """Positions of the act that failed and of the later one that did not."""

    failed: int
    mended: int
    repeated: bool
    """Whether the later act says exactly the same."""


class Recovery(msgspec.Struct, frozen=True):
    """Of one attempt."""

    errors: tuple[int, ...]
    """Positions of the acts that came to an error."""
    recovered: tuple[RecoveredAct, ...]

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
    # Equivalent but for the stage, which changes with what was done in between.
    aims = [msgspec.structs.replace(state, stage="explore") for state in held]
    fine: dict[Hashable, list[int]] = {}
    for position, aim in enumerate(aims):
        if not failed[position]:
            fine.setdefault(block(aim), []).append(position)
    recovered = []
    for position in errors:
        later = fine.get(block(aims[position]), [])
        first = bisect(later, position)
        for mended in later[first : first + _LOOKED_AT]:
            if equivalent(aims[position], aims[mended]):
                recovered.append(RecoveredAct(position, mended, aims[position] == aims[mended]))
                break
    return Recovery(errors, tuple(recovered))
