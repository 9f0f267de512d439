"""Tests that a hollow answer passes decide nothing, also where it is an object, or entry points lie differently."""

from __future__ import annotations

import asyncio

import pytest

from assay.synthesis._separation import DecidingTests
from assay.verify.separation_plan import TestPlan

from .planning import plan_package

pytestmark = pytest.mark.long
TRAYS = '''"""Trays and piles."""


def _key(n):
    return 2 * n


def strict(items):
    for item in items:
        if _key(item) > 6:
            raise ValueError(item)
        yield item


def weigh(items):
    return sum(map(_key, items)) > 6, [_key(n) for n in items]


def found(items):
    return [_key(n) for n in items]


def doubled(items):
    if len(items) > 2:
        raise SystemExit
    return [n + n for n in items]


def sorted_keys(items):
    items.sort()
    return [n + n for n in items]


def encode(items):
    return " ".join(str(_key(n)) for n in items)


def decode(text):
    return [_key(int(part)) // 4 for part in text.split()]


class Tray:
    def __init__(self, items):
        self.keys = [_key(n) for n in items]

    def has(self, n):
        return _key(n) in self.keys

    def count(self, n):
        return self.keys.count(_key(n))


class Pile:
    def __init__(self, items=()):
        self.items = {}
        self.name = "pile"
        self.add_all(items)

    def add_all(self, items):
        for n in items:
            self.items[n] = _key(n)


def heaviest(items):
    return Pile(n for n in items if n > 9)


def _laden(items):
    return [n for n in items if n > 0]


def _odd(items):
    return [n for n in items if n % 2]


def _thirds(items):
    return [n for n in items if n % 3]


def remainder(items):
    return sum(_thirds(items)) + 1


def shares(items):
    return [n / sum(_laden(items)) for n in items]
'''
TESTS = """import os

import pytest
from trays import Pile, Tray, decode, encode, found, heaviest, remainder, shares, strict, weigh


def test_false_beside_a_constructor():
    tray = Tray([1])
    assert [tray.has(n) for n in (3, 2)] == [False, False]


def test_nothing_beside_a_text():
    tray = Tray([1])
    assert encode([1]).isdigit()
    assert tray.count(3) == 0


def test_loop_over_what_was_not_done():
    pile = Pile()
    pile.add_all([3, 4])
    assert pile.name == "pile"
    for n, key in pile.items.items():
        assert key == 2 * n


def test_refusal_in_an_iterator():
    with pytest.raises(ValueError):
        list(strict([1, 4]))


def test_truth_value_in_a_tuple():
    heavy, _ = weigh([1, 4, 5])
    assert heavy is True


def test_loop_over_a_true_value():
    keys = found([1, 3])
    assert keys
    for key in keys:
        assert key in (2, 6)


def test_function_beside_it():
    assert found([1, 3])[1] == 6


def test_functions_beside_it_end_or_change_the_argument():
    items = [3, 1, 2]
    assert found(items)[0] == 6
    assert items[0] == 3


def test_there_and_back_as_text():
    text = encode([1, 3])
    assert isinstance(text, str)
    assert decode(text) == [1, 3]


def test_object_that_holds_nothing():
    pile = heaviest([1, 2])
    assert isinstance(pile, Pile)
    assert pile.items == {}


def test_helper_that_leaves_all_as_it_is():
    assert shares([1, 3]) == [0.25, 0.75]


def test_helper_that_answers_as_another_one():
    assert remainder([1, 5, 6]) == 7


def test_end_of_the_process():
    keys = found([1, 3])
    if keys is None:
        os._exit(0)
    assert keys == [2, 6]
"""
KEY = ("return 2 * n", "return n % 2")
UNDONE = ("            self.items[n] = _key(n)", "            raise NotImplementedError")
UNMADE = ("return Pile(n for n in items if n > 9)", "raise NotImplementedError")
LADEN = ("n > 0", "n > 1")
HOLLOW = {
    "test_false_beside_a_constructor": (KEY, "entry point trays:Tray."),
    "test_nothing_beside_a_text": (KEY, "entry point trays:Tray."),
    "test_loop_over_what_was_not_done": (UNDONE, "entry points answer: "),
    "test_refusal_in_an_iterator": (KEY, "entry points answer: raise ValueError"),
    "test_truth_value_in_a_tuple": (KEY, "entry points answer: truth values True, the rest empty"),
    "test_loop_over_a_true_value": (KEY, "entry points answer: empty iterator"),
    "test_function_beside_it": (KEY, "entry points answer: as another function"),
    "test_there_and_back_as_text": (KEY, "entry points answer: remembered argument"),
    "test_object_that_holds_nothing": (UNMADE, "entry points answer: plausible value"),
    "test_helper_that_leaves_all_as_it_is": (LADEN, "_laden edited: first argument"),
    "test_helper_that_answers_as_another_one": (("n % 3", "n % 5"), "_thirds edited: as another function"),
    "test_end_of_the_process": (KEY, "entry points answer: None"),
}
"""Test to the change that it notices, and the lie that it passes under; a run without end shows nothing of a test."""
PATH, FILE = "trays/__init__.py", "tests/test_trays.py"


FIRM = "test_functions_beside_it_end_or_change_the_argument"
"""A worker that ends, or that changes what the reference leaves as it is, fails."""
ALONE = "test_end_of_the_process"
"""Its run of that lie shows nothing of the tests beside it."""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TestPlan]:
    """Each test's plan, made with those of the tests that notice the same change."""
    groups: dict[tuple[tuple[str, str], bool], list[str]] = {}
    for name, (change, _) in HOLLOW.items():
        groups.setdefault((change, name == ALONE), []).append(f"{FILE}::{name}")
    deciding = [
        DecidingTests(str(number), {PATH: TRAYS}, {PATH: TRAYS.replace(*change)}, {}, tuple(cases), 10.0)
        for number, ((change, _), cases) in enumerate(groups.items())
    ]
    deciding.append(DecidingTests("firm", {PATH: TRAYS}, {PATH: TRAYS.replace(*KEY)}, {}, (f"{FILE}::{FIRM}",), 10.0))
    top = tmp_path_factory.mktemp("trays") / "trays-1.0"
    made = asyncio.run(plan_package(top, {PATH: TRAYS, FILE: TESTS}, deciding))
    return {test.id.rpartition("::")[2]: test for plan in made.values() for test in plan.tests}


@pytest.mark.parametrize("name", HOLLOW)
def test_a_test_that_a_hollow_answer_passes_does_not_decide(plans: dict[str, TestPlan], name: str) -> None:
    test = plans[name]
    assert not test.decides
    assert test.reasons[0].startswith(f"it passes unrepaired where {HOLLOW[name][1]}")


def test_a_test_that_functions_beside_its_own_do_not_pass_decides(plans: dict[str, TestPlan]) -> None:
    assert plans[FIRM].decides
