"""Subset sum: choose numbers that add up to a target. Hard to find, easy to check; a solution is planted."""

from __future__ import annotations

import random
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Rules, WorldConfig


class SubsetSumConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `subset-sum`. `turns` 0 means three answers."""

    numbers: Annotated[int, Meta(ge=2, le=40)] = 8
    """Number of candidates."""
    largest: Annotated[int, Meta(ge=10, le=1_000_000)] = 60
    """Upper bound of the numbers, which are distinct."""
    chosen: Annotated[int, Meta(ge=0, le=40)] = 0
    """Size of the planted solution; 0 means half of the numbers."""


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give numbers of the list that add up to the target, each at most once."""

    numbers: Annotated[list[int], Meta(min_length=1, max_length=40)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    sum: int | None = None
    """Sum of the last answer; None before an answer and for numbers not on the list."""


class SubsetSum(Rules[SubsetSumConfig, _Now]):
    """Subset sum world."""

    name: ClassVar[str] = "subset-sum"
    WorldConfig = SubsetSumConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"answer": _Answer}

    def generate(self, draw: random.Random) -> None:
        count, largest = self.config.numbers, self.config.largest
        chosen = self.config.chosen or (count + 1) // 2
        if chosen > count or count > largest:
            raise ValueError(
                f"numbers={count} with chosen={chosen} and largest={largest}: more are chosen than there are"
            )
        self._numbers = tuple(draw.sample(range(1, largest + 1), count))
        self._planted = sorted(draw.sample(self._numbers, chosen))
        self._target = sum(self._planted)
        if not self.config.solvable:
            self._target = _unreachable_sum(self._numbers, self._target)
        self.limit = self.config.turns or 3
        self.now = _Now()

    def brief(self) -> str:
        return f"Choose numbers of the list that add up to the target. You have {self.limit} answers."

    def render(self) -> str:
        return f"numbers {' '.join(map(str, self._numbers))}\ntarget {self._target}"

    def do_answer(self, given: _Answer) -> Turn:
        """Checks the answer; the turn says whether it is right, or its error."""
        numbers = given.numbers
        if len(set(numbers)) != len(numbers) or not set(numbers) <= set(self._numbers):
            self.now.sum = None
            return Turn("wrong: give numbers of the list, each at most once")
        self.now.sum = found = sum(numbers)
        if found == self._target:
            return Turn("right", 1.0, True)
        return Turn(f"wrong: they add up to {found}, target {self._target}")

    def constants(self) -> Any:
        return [self._numbers, self._target]

    def solved(self) -> bool:
        return self.now.sum == self._target

    def extra_facts(self) -> dict[str, Any]:
        return {"sum": self.now.sum, "target": self._target, "shortest": 1}

    def oracle(self) -> Act | None:
        return None if self.over or not self.config.solvable else ("answer", {"numbers": self._planted})

    def progress(self) -> float | None:
        """Returns the closeness of the last answer's sum."""
        if not self.config.solvable:
            return None
        off = self._target if self.now.sum is None else abs(self.now.sum - self._target)
        return max(0.0, 1 - off / self._target)

    def choices(self) -> list[Act]:
        """Returns each number alone, all of them, and the first half."""
        if self.over:
            return []
        groups = [[number] for number in self._numbers]
        groups += [list(self._numbers), list(self._numbers[: (len(self._numbers) + 1) // 2])]
        return [("answer", {"numbers": group}) for group in groups]


def _unreachable_sum(numbers: tuple[int, ...], near: int) -> int:
    """Returns the sum nearest to `near`, at least 1, that no choice of numbers gives."""
    reached = 1  # bit n is set where n is a sum
    for number in numbers:
        reached |= reached << number
    for off in range(1, sum(numbers) + 2):
        for target in (near - off, near + off):
            if target >= 1 and not reached >> target & 1:
                return target
    raise AssertionError  # what is above the sum of all is never reached
