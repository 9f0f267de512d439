"""Constraint satisfaction: assign variables so that all constraints hold. The planted solution is unique."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Rules, WorldConfig

_MOST_ASSIGNMENTS = 120_000


class ConstraintsConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `constraints`. `turns` 0 means three per variable."""

    variables: Annotated[int, Meta(ge=2, le=8)] = 4
    values: Annotated[int, Meta(ge=2, le=9)] = 4
    """Largest value of a variable; the smallest is 1."""


class _Assign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give a variable a value."""

    variable: Annotated[str, Meta(max_length=1)]
    value: Annotated[int, Meta(ge=1, le=9)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    values: list[int]
    """Value per variable; 0 if unassigned."""


class _Constraint(NamedTuple):
    kind: Literal["less", "sum", "even", "odd", "unlike", "not"]
    one: int
    other: int
    number: int

    def holds(self, values: tuple[int, ...] | list[int]) -> bool:
        """Returns whether an assignment satisfies the constraint."""
        one, other = values[self.one], values[self.other]
        if self.kind == "less":
            return one < other
        if self.kind == "sum":
            return one + other == self.number
        if self.kind == "unlike":
            return one != other
        return one != self.number if self.kind == "not" else one % 2 == (self.kind == "odd")

    def text(self, names: str) -> str:
        one, other = names[self.one], names[self.other]
        shown = {
            "less": f"{one} < {other}",
            "sum": f"{one} + {other} = {self.number}",
            "unlike": f"{one} != {other}",
            "not": f"{one} != {self.number}",
        }
        return shown.get(self.kind, f"{one} is {self.kind}")


class Constraints(Rules[ConstraintsConfig, _Now]):
    """Constraint satisfaction world."""

    name: ClassVar[str] = "constraints"
    WorldConfig = ConstraintsConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"assign": _Assign}

    def generate(self, draw: random.Random) -> None:
        variables, values = self.config.variables, self.config.values
        if values**variables > _MOST_ASSIGNMENTS:
            raise ValueError(
                f"variables={variables} with values={values} are more than {_MOST_ASSIGNMENTS} assignments"
            )
        self._names = "ABCDEFGH"[:variables]
        self._planted = tuple(draw.randint(1, values) for _ in range(variables))
        known = list(_satisfied_constraints(self._planted))
        draw.shuffle(known)
        left = list(itertools.product(range(1, values + 1), repeat=variables))
        self._constraints: list[_Constraint] = []
        for constraint in known:
            rest = [one for one in left if constraint.holds(one)]
            if len(rest) < len(left):
                self._constraints.append(constraint)
                left = rest
            if len(left) == 1:
                break
        if not self.config.solvable:
            at = draw.randrange(variables)
            self._constraints.append(_Constraint("not", at, at, self._planted[at]))
            draw.shuffle(self._constraints)
        self.limit = self.config.turns or 3 * variables
        self.now = _Now([0] * variables)

    def brief(self) -> str:
        names, values = ", ".join(self._names), self.config.values
        return f"Give each of {names} a value from 1 to {values} so that all constraints hold, in {self.limit} acts."

    def render(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in zip(self._names, self.now.values, strict=True) if value)
        return f"{'; '.join(one.text(self._names) for one in self._constraints)}\n{given or 'nothing is assigned'}"

    def do_assign(self, given: _Assign) -> Turn:
        at = self._names.find(given.variable) if len(given.variable) == 1 else -1
        if at < 0 or not 1 <= given.value <= self.config.values:
            known = f"give one of {', '.join(self._names)} a value from 1 to {self.config.values}"
            return Turn(f"{given.variable[:20]!r} = {given.value}: {known}", error=True)
        self.now.values[at] = given.value
        if self.solved():
            return Turn("all constraints hold", 1.0, True)
        values = self.now.values
        decided = (one for one in self._constraints if values[one.one] and values[one.other])
        broken = [one.text(self._names) for one in decided if not one.holds(values)]
        free = [name for name, value in zip(self._names, values, strict=True) if not value]
        return Turn(f"broken: {'; '.join(broken) or 'none'}. not assigned: {' '.join(free) or 'none'}")

    def constants(self) -> Any:
        return self._constraints

    def check(self, now: _Now) -> None:
        fits = all(0 <= value <= self.config.values for value in now.values)
        if len(now.values) != self.config.variables or not fits:
            raise ValueError(
                f"{now.values} are no values of {self.config.variables} variables up to {self.config.values}"
            )

    def solved(self) -> bool:
        return all(self.now.values) and all(one.holds(self.now.values) for one in self._constraints)

    def extra_facts(self) -> dict[str, Any]:
        return {"values": list(self.now.values), "shortest": self.config.variables}

    def oracle(self) -> Act | None:
        """Assigns the first variable whose value differs from the solution."""
        if self.over or not self.config.solvable:
            return None
        wrong = (at for at, value in enumerate(self.now.values) if value != self._planted[at])
        at = next(wrong)  # were there none, the world would be over
        return "assign", {"variable": self._names[at], "value": self._planted[at]}

    def progress(self) -> float | None:
        """Returns the share of correct variables."""
        if not self.config.solvable:
            return None
        right = sum(value == planted for value, planted in zip(self.now.values, self._planted, strict=True))
        return right / self.config.variables

    def choices(self) -> list[Act]:
        if self.over:
            return []
        return [
            ("assign", {"variable": name, "value": value})
            for name in self._names
            for value in range(1, self.config.values + 1)
        ]


def _satisfied_constraints(values: tuple[int, ...]) -> Iterator[_Constraint]:
    """Yields every satisfied constraint of the usual kinds; together they leave one assignment."""
    for one, other in itertools.permutations(range(len(values)), 2):
        if values[one] < values[other]:
            yield _Constraint("less", one, other, 0)
        if one < other:
            yield _Constraint("sum", one, other, values[one] + values[other])
            if values[one] != values[other]:
                yield _Constraint("unlike", one, other, 0)
    for one, value in enumerate(values):
        yield _Constraint("odd" if value % 2 else "even", one, one, 0)
    # Sums alone leave two variables open against each other where there are but two of them.
    for one, value in enumerate(values):
        for number in range(1, 10):
            if number != value:
                yield _Constraint("not", one, one, number)
