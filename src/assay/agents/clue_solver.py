"""Solves constraints from the text of its task: alone, or as an actor of a team that tells and hears clues.

It is made of rules and asks no model. It reads the clues of its instruction, tells them to the channels that it may
write to, reads what others tell, and assigns the values of an assignment that fits what it knows, the first in an order
that is drawn once an attempt. What it is told is text: a clue that contradicts what it knew before is ignored.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import msgspec

from assay.errors import TaskError
from assay.records import TEAM_HAND_OFF, TEAM_READ, TEAM_SEND, Evidence, Observation, Step, ToolCall, canonical_bytes

from ._calls import instruction_of
from ._options import read_options
from .interface import Attempt

ASSIGN = "assign"
STATED = "stated_values"
"""Kind of the evidence about what a solver holds for certain at its end."""
_BRIEF = re.compile(r"Give each of ([A-H](?:, [A-H])*) a value from 1 to ([2-9])\b")
_CLUES = re.compile(
    r"\b(?P<one>[A-H]) (?:(?P<sign><|!=) (?P<right>[A-H]|\d)|\+ (?P<other>[A-H]) = (?P<sum>\d{1,2})"
    r"|is (?P<kind>even|odd))\b"
)
_SHOWN = re.compile(r"\b([A-H])=([1-9?])")
_MOST_ASSIGNMENTS = 120_000
Values = tuple[int, ...]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tell: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """Share of its own clues that it tells; each is drawn."""
    batch: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Clues per message; 0 puts all of them in one."""
    decoy: bool = False
    """True if it tells clues of another puzzle instead of its own: a placebo of equal length."""
    reread: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Assignments after which it looks for messages again; 0: once a look found none, it looks no more."""
    steps: Annotated[int, msgspec.Meta(ge=1)] = 200
    """Maximum number of its turns; the limits of world and run also apply."""


class ClueSolverAgent:
    """Solves constraints from text. Options: `tell`, `batch`, `decoy`, `reread`, `steps`."""

    name = "clue-solver"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the task states no constraints."""
        await self.continue_from(attempt, ())

    async def continue_from(self, attempt: Attempt, steps: Sequence[Step]) -> None:
        """Goes on after recorded steps of its own, of which it knows what it read and saw."""
        solver = _Solver(attempt, self._options)
        solver.recall(steps)
        try:
            await solver.play(self._options.steps - len(steps))
        finally:
            attempt.note(Evidence(STATED, "audit", STATED, {"values": solver.knowledge.certain()}))


class Knowledge:
    """Assignments that fit the clues known so far, in an order that a seed decides."""

    def __init__(self, names: Sequence[str], most: int, seed: object = 0) -> None:
        if most ** len(names) > _MOST_ASSIGNMENTS:
            raise TaskError(f"{len(names)} variables of {most} values are too many to enumerate")
        self.names = tuple(names)
        self.fitting: list[Values] = list(itertools.product(range(1, most + 1), repeat=len(names)))
        random.Random(f"order/{seed}").shuffle(self.fitting)

    def add(self, clues: Iterable[str]) -> int:
        """Adds clues; returns how many are in contradiction with what was known, and ignored."""
        ignored = 0
        for clue in clues:
            holds = self._predicate(clue)
            rest = [] if holds is None else [one for one in self.fitting if holds(one)]
            self.fitting, ignored = (rest, ignored) if rest else (self.fitting, ignored + 1)
        return ignored

    def _predicate(self, clue: str) -> Callable[[Values], bool] | None:
        """Returns what a clue says of an assignment; None for a text that is no clue about the known variables."""
        found = _CLUES.fullmatch(clue)
        places = {name: at for at, name in enumerate(self.names)}
        one = None if found is None else places.get(found["one"])
        if found is None or one is None:
            return None
        if found["kind"] is not None:
            is_odd = found["kind"] == "odd"
            return lambda values: values[one] % 2 == is_odd
        if found["sum"] is not None:
            other, total = places.get(found["other"]), int(found["sum"])
            return None if other is None else lambda values: values[one] + values[other] == total
        if found["right"].isdigit():
            number = int(found["right"])
            return lambda values: values[one] < number if found["sign"] == "<" else values[one] != number
        right = places.get(found["right"])
        if right is None:
            return None
        if found["sign"] == "<":
            return lambda values: values[one] < values[right]
        return lambda values: values[one] != values[right]

    def matching(self, current: Sequence[int]) -> list[Values]:
        """Returns the assignments that agree with all values assigned so far (0 for none)."""
        return [one for one in self.fitting if all(a in (0, b) for a, b in zip(current, one, strict=True))]

    def certain(self) -> dict[str, int]:
        """Returns the variables that have one value in all assignments that fit."""
        columns = [set(column) for column in zip(*self.fitting, strict=True)]
        return {name: min(column) for name, column in zip(self.names, columns, strict=True) if len(column) == 1}


def read_clues(text: str) -> list[str]:
    """Returns the clues in a text, in order."""
    return [found[0] for found in _CLUES.finditer(text)]


class _Solver:
    def __init__(self, attempt: Attempt, options: _Options) -> None:
        text = instruction_of(attempt.task)
        brief = _BRIEF.search(text)
        if brief is None:
            raise TaskError("agent 'clue-solver' solves `constraints` and `split-constraints` alone")
        self._attempt, self._options = attempt, options
        self.knowledge = Knowledge(brief[1].split(", "), int(brief[2]), attempt.seed)
        self._own = read_clues(text)
        self.knowledge.add(self._own)
        self._tools = {spec.name: spec for spec in attempt.tools.specs()}
        told = (
            _decoys(attempt.seed, self.knowledge.names, int(brief[2]), len(self._own)) if options.decoy else self._own
        )
        size = options.batch or max(len(told), 1)
        self._batches = [told[n : n + size] for n in range(0, len(told), size)] if TEAM_SEND in self._tools else []
        self._is_reading = TEAM_READ in self._tools
        self._has_handed = False
        self._current = [0] * len(self.knowledge.names)
        self._tried: set[Values] = set()
        self._turn = self._assigned = 0

    def recall(self, steps: Sequence[Step]) -> None:
        for step in steps:
            for call, seen in zip(step.tool_calls, step.observations, strict=False):
                self._learn(call, seen)
                self._has_handed |= call.name == TEAM_HAND_OFF and not seen.error
        self._turn = len(steps)
        del self._batches[: len(steps)]

    def _learn(self, call: ToolCall, seen: Observation) -> bool:
        """Takes in a result; returns whether it holds anything new."""
        if call.name == TEAM_READ:
            messages = msgspec.json.decode(seen.content, type=list[dict[str, str]])
            self.knowledge.add(clue for message in messages for clue in read_clues(message["text"]))
            return bool(messages)
        if call.name == ASSIGN and not seen.error:
            names, given = self.knowledge.names, call.parsed or {}
            shown = dict(_SHOWN.findall(seen.content))
            if shown:
                self._current = [int(shown[name]) if shown.get(name, "?") != "?" else 0 for name in names]
            elif given.get("variable") in names:  # a world that does not show the assignment
                self._current[names.index(given["variable"])] = given["value"]
            if all(self._current):
                self._tried.add(tuple(self._current))
        return True

    async def play(self, most: int) -> None:
        for _ in range(most):
            if self._attempt.ended is not None:
                return
            if self._batches:
                await self._tell(self._batches.pop(0))
            elif self._is_reading and ASSIGN in self._tools:
                self._is_reading = await self._do(TEAM_READ, {})
            elif TEAM_HAND_OFF in self._tools and ASSIGN not in self._tools and not self._has_handed:
                self._has_handed = True
                await self._do(TEAM_HAND_OFF, {"to": self._receiver(), "text": "I told what I know."})
            elif ASSIGN not in self._tools or not await self._assign():
                break
        self._attempt.finish("nothing is left to do")

    async def _tell(self, clues: Sequence[str]) -> None:
        chosen = [clue for number, clue in enumerate(clues) if self._draw(number).random() < self._options.tell]
        if chosen:
            await self._do(
                TEAM_SEND,
                {"channel": _choices(self._tools[TEAM_SEND].parameters, "channel")[0], "text": "; ".join(chosen)},
            )
        else:
            self._turn += 1
            await self._attempt.act([])

    def _receiver(self) -> str:
        return _choices(self._tools[TEAM_HAND_OFF].parameters, "to")[0]

    async def _assign(self) -> bool:
        """Assigns one value; returns False if nothing fits any more."""
        names, open_ones = self.knowledge.names, [one for one in self.knowledge.fitting if one not in self._tried]
        if not open_ones:
            return False
        matching = [one for one in self.knowledge.matching(self._current) if one not in self._tried]
        if matching:
            target, at = matching[0], next(n for n, value in enumerate(self._current) if not value)
        else:
            distances = [sum(a not in (0, b) for a, b in zip(self._current, one, strict=True)) for one in open_ones]
            target = open_ones[distances.index(min(distances))]
            at = next(n for n, value in enumerate(self._current) if value not in (0, target[n]))
        await self._do(ASSIGN, {"variable": names[at], "value": target[at]})
        self._assigned += 1
        if self._options.reread and self._assigned % self._options.reread == 0:
            self._is_reading = TEAM_READ in self._tools
        return True

    def _draw(self, number: int) -> random.Random:
        return random.Random(f"{self._attempt.seed}/{self._turn}/{number}")

    async def _do(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Makes a call as a turn of its own; returns whether its result holds anything new."""
        call = ToolCall(f"k{self._turn}", tool, canonical_bytes(arguments).decode(), arguments)
        self._turn += 1
        (seen,) = await self._attempt.act([call])
        return self._learn(call, seen)


def _choices(schema: dict[str, Any], name: str) -> list[str]:
    return [str(one) for one in schema["properties"][name]["enum"]]


def _decoys(seed: int, names: Sequence[str], most: int, count: int) -> list[str]:
    """Returns clues of another puzzle over the same variables."""
    draw = random.Random(f"decoy/{seed}")
    values = {name: draw.randint(1, most) for name in names}
    found = []
    for _ in range(count):
        one, other = draw.sample(list(names), 2)
        if draw.random() < 0.5 or values[one] == values[other]:
            found.append(f"{one} + {other} = {values[one] + values[other]}")
        else:
            found.append(f"{min((one, other), key=values.__getitem__)} < {max((one, other), key=values.__getitem__)}")
    return found
