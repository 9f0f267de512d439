"""Constraint satisfaction whose constraints are split: the actors of a team know a part each.

A single agent is told all of them. No part alone leaves one assignment, and no act reveals a constraint: its result is
the assignment so far, and whether all constraints hold.
"""

from __future__ import annotations

import itertools
import random
from typing import Annotated, ClassVar

import msgspec

from .constraints import Constraints, ConstraintsConfig, _Assign, _Constraint
from .interface import Turn

_MOST_DRAWS = 200


class SplitConstraintsConfig(ConstraintsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `split-constraints`."""

    parts: Annotated[int, msgspec.Meta(ge=2, le=4)] = 2
    """Number of parts that the constraints are dealt to, in turn."""


class SplitConstraints(Constraints):
    """Constraint satisfaction world with split knowledge."""

    name: ClassVar[str] = "split-constraints"
    WorldConfig = SplitConstraintsConfig
    config: SplitConstraintsConfig

    def generate(self, draw: random.Random) -> None:
        for _ in range(_MOST_DRAWS):
            super().generate(draw)
            if all(self._leaves_choice(self._part(number)) for number in range(1, self.parts + 1)):
                return
        raise ValueError(f"no world found in which each of {self.parts} parts is needed: take more variables")

    @property
    def parts(self) -> int:
        """Number of parts."""
        return self.config.parts

    def _part(self, number: int) -> list[_Constraint]:
        return self._constraints[number - 1 :: self.parts]

    def _leaves_choice(self, part: list[_Constraint]) -> bool:
        """Returns whether a part holds a constraint and leaves more than one assignment."""
        values = range(1, self.config.values + 1)
        fitting = (
            one
            for one in itertools.product(values, repeat=self.config.variables)
            if all(constraint.holds(one) for constraint in part)
        )
        return bool(part) and len(list(itertools.islice(fitting, 2))) == 2

    def needed_facts(self) -> tuple[str, ...]:
        """Returns the constraints; each of them excludes something."""
        return tuple(one.text(self._names) for one in self._constraints)

    def view(self, part: int) -> str:
        """Returns the task with the constraints of one part; without any for part 0."""
        known = [one.text(self._names) for one in self._part(part)] if part else []
        listed = "; ".join(known) if known else "you know none of the constraints"
        return f"{self.brief()}\nYou know a part of the constraints.\n{listed}\n{self._assignment()}"

    def render(self) -> str:
        return f"{'; '.join(one.text(self._names) for one in self._constraints)}\n{self._assignment()}"

    def _assignment(self) -> str:
        given = zip(self._names, self.now.values, strict=True)
        return " ".join(f"{name}={value or '?'}" for name, value in given)

    def do_assign(self, given: _Assign) -> Turn:
        turn = super().do_assign(given)
        if turn.error or turn.terminated:
            return turn
        is_wrong = "" if 0 in self.now.values else "; a constraint is broken"
        return Turn(f"{self._assignment()}{is_wrong}")
