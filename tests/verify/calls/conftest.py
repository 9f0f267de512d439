"""A small package with a repair task that is judged by calls, in real sandboxes."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest

from assay.verify.calls import CallPlan, CallProgram, ReferenceFix
from assay.verify.payload import plain_values
from assay.verify.separation_plan import SeparationPlan, TestPlan, encode_plan
from tests.verify.conftest import Bench, Outcome

sys.modules["plain_values"] = plain_values  # as programs of the payload import it, beside each other
CORE = '''
class DepotError(ValueError):
    pass


class Depot:
    def __init__(self, items=()):
        self.amounts = dict(items)

    def add(self, name, amount):
        self.amounts[name] = self.amounts.get(name, 0) + amount

    def __len__(self):
        return len(self.amounts)

    def __iter__(self):
        return iter(self.amounts)


def median(numbers):
    """Returns the middle of some numbers, or the mean of the two in the middle."""
    return numbers[0] if numbers else 0


def merged(first, second):
    """Returns a depot with the amounts of both."""
    return Depot()


def largest(depot, count):
    """Yields the names with the largest amounts."""
    yield from ()


def clear(numbers, below):
    """Removes what is below a limit, in place."""
'''
RIGHT = {
    "median": (
        "if not numbers:\n        raise DepotError('no numbers')\n    middle, size = sorted(numbers), len(numbers)\n"
        "    return (middle[(size - 1) // 2] + middle[size // 2]) / 2"
    ),
    "merged": (
        "depot = Depot(first.amounts)\n    for name, amount in second.amounts.items():\n"
        "        depot.add(name, amount)\n    return depot"
    ),
    "largest": "yield from sorted(depot.amounts, key=lambda n: (-depot.amounts[n], str(n)))[:count]",
    "clear": "numbers[:] = [number for number in numbers if number >= below]",
}
TESTS = """
import pytest

from depot import Depot, DepotError, clear, largest, median, merged


def test_median():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 3, 2]) == 2.5


def test_no_numbers():
    with pytest.raises(DepotError):
        median([])


class TestDepot:
    def setup_method(self):
        self.depot = Depot([("a", 1)])
        self.depot.add("b", 5)

    def test_merged(self):
        both = merged(self.depot, Depot([("a", 2), ("c", 1)]))
        assert both.amounts == {"a": 3, "b": 5, "c": 1}
        assert len(both) == 3

    def test_largest(self):
        assert list(largest(self.depot, 1)) == ["b"]


def test_clear():
    numbers = [1, 5, 2, 7]
    clear(numbers, 3)
    assert numbers == [5, 7]
"""
FILE = "tests/test_depot.py"
NAMES = ("test_median", "test_no_numbers", "TestDepot::test_merged", "TestDepot::test_largest", "test_clear")
IDS = tuple(f"{FILE}::{name}" for name in NAMES)


def core(**bodies: str) -> str:
    """The module with some bodies in the place of its own."""
    text = CORE
    for name, body in bodies.items():
        at = text.index(f"\ndef {name}(")
        end = text.find("\n\n\ndef ", at + 1)
        head = text[at : text.index("\n", at + 1)]
        text = text[:at] + f"{head}\n    {body}" + (text[end:] if end > 0 else "\n")
    return text


def solution(**other: str) -> str:
    """A command that writes the package with right bodies, but for those that are given."""
    return write_core(core(**{**RIGHT, **other}))


def write_core(text: str) -> str:
    return f"cat > depot/core.py <<'PYTHON'\n{text.lstrip()}PYTHON\n"


def fixes() -> tuple[ReferenceFix, ...]:
    return (ReferenceFix("depot/core.py", 0, CORE, core(**RIGHT)),)


def called(name: str, *args: Any, **named: Any) -> list[Any]:
    return ["call", ["g", "depot", name], "", list(args), [[key, value] for key, value in named.items()]]


def program(*operations: list[Any], observed: int) -> CallProgram:
    return CallProgram(IDS[0], tuple([n, *operation] for n, operation in enumerate(operations)), observed)


PAIRS = ["l", ["t", "a", 1], ["t", "b", 5]]
PLAN = CallPlan(
    programs=(
        program(called("median", ["l", 3, 1, 2]), observed=0),
        program(called("median", ["l", 4, 1, 3, 2]), observed=0),
        program(
            called("Depot", PAIRS),
            ["method", ["o", 0], "add", ["b", 5], []],
            called("Depot", ["l", ["t", "a", 2], ["t", "c", 1]]),
            called("merged", ["o", 0], ["o", 2]),
            ["attr", ["o", 3], "amounts"],
            observed=3,
        ),
        program(called("Depot", PAIRS), called("largest", ["o", 0], 1), observed=1),
        program(called("clear", ["l", 1, 5, 2, 7], 3), observed=0),
    ),
    imports=("depot",),
    roots=("/workspace",),
    inputs=40,
    fair_share=0.7,
    exceptions=("depot.core.DepotError",),
    tests=IDS,
)


class DepotTask:
    """Judges what a command leaves of the package."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        package = {"depot/__init__.py": "from .core import *\nfrom .core import DepotError\n", "depot/core.py": CORE}
        bench.given = {f"workspace/{name}": text for name, text in package.items()}
        self.use_plan(PLAN)

    def use_plan(self, calls: CallPlan) -> None:
        plan = SeparationPlan(
            package="depot",
            tests=tuple(TestPlan(name, "calls") for name in IDS),
            calls=(msgspec.to_builtins(calls),),
        )
        fix = json.dumps(msgspec.to_builtins(fixes()))
        separation = encode_plan(plan).decode()
        self.bench.files = {FILE: TESTS, "tests/separation.json": separation, "solution/fix.json": fix}

    async def judge(self, command: str) -> Outcome:
        return await self.bench.judge(command, "pytest", tests=[FILE], expected=list(IDS), timeout_s=60.0)


@pytest.fixture
def depot(bench: Bench) -> DepotTask:
    return DepotTask(bench)
