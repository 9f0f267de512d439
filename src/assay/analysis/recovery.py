"""Recovery of an attempt from its errors.

An error is recovered from if a later act equivalent to the failed one ends without error. TopoCurate (arXiv 2603.01714)
names reflective recovery as a criterion of training data without a formula; this one is ours. Repeating the same act
until it works is a `repeated` recovery, not a reflective one.

Range: [0, 1], None without errors. Misleading: an error rightly ignored (a missing file, so the agent looks elsewhere)
counts as not recovered.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec

from .interface import Action
from .outcomes import is_error
from .states import State, block, equivalent, states_of

_LOOKED_AT = 200
"""Maximum number of later acts of the same kind compared with an error, which bounds the time."""


class RecoveredAct(NamedTuple):
    """Positions of the failed act and of the later successful one."""

    failed: int
    mended: int
    repeated: bool
    """True if the later act is identical."""


class Recovery(msgspec.Struct, frozen=True):
    """Recovery of one attempt."""

    errors: tuple[int, ...]
    """Positions of the failed acts."""
    recovered: tuple[RecoveredAct, ...]

    @property
    def share(self) -> float | None:
        """Returns recovered errors over errors."""
        return len(self.recovered) / len(self.errors) if self.errors else None

    @property
    def reflective(self) -> float | None:
        """Returns the same of recoveries that changed something."""
        changed = sum(not each.repeated for each in self.recovered)
        return changed / len(self.errors) if self.errors else None


def recovery_of(actions: Sequence[Action], states: Sequence[State] | None = None) -> Recovery:
    """Returns the errors of an attempt and its recoveries."""
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
