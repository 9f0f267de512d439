"""Functions beside an entry point, as which a wrong repair answers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.synthesis._entry_trace import PAYLOAD

RINGS = """import functools
from os.path import join


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper


@wrapped
def ring(size, colour="red"):
    return [colour] * size


alias = ring


def star(size, colour="red"):
    return [size, colour]


def dot(size):
    return [size]


def both(one, other, third):
    return one


def named(size, *, weight):
    return size


def rest(*parts):
    return parts


class Ring:
    def __init__(self, size):
        self.size = size

    def area(self):
        return self.size

    @property
    def side(self):
        return self.size

    @staticmethod
    def make(size):
        return size

    @classmethod
    def of(cls, size):
        return cls(size)
"""


@pytest.fixture
def siblings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(PAYLOAD))
    (tmp_path / "ringpackage").mkdir()
    (tmp_path / "ringpackage" / "rings.py").write_text(RINGS)
    (tmp_path / "ringpackage" / "__init__.py").write_text(
        "from .rings import dot\n"
        "def far(size, colour='red'):\n    return colour\n"
        "def _far(size, colour):\n    return 0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("sibling_functions")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ringpackage"]:
        del sys.modules[name]


def names(found: list[Any]) -> list[str]:
    return [function.__qualname__ for function in found]


def test_functions_of_the_module_that_may_take_the_arguments_and_then_those_of_the_package(siblings: Any) -> None:
    found = names(siblings.find_siblings("ringpackage.rings:ring", 40))
    assert found == ["star", "dot", "wrapped", "rest", "far"]
    assert names(siblings.find_siblings("ringpackage.rings:ring", 2)) == ["star", "dot"]


def test_methods_stand_beside_methods_and_properties(siblings: Any) -> None:
    assert names(siblings.find_siblings("ringpackage.rings:Ring.area", 40)) == ["Ring.side"]
    assert names(siblings.find_siblings("ringpackage.rings:Ring.side", 40)) == ["Ring.area"]
    assert names(siblings.find_siblings("ringpackage.rings:Ring.make", 40)) == []


class Call:
    def __init__(self, args: tuple[Any, ...], changes: Any = ()) -> None:
        self.entry, self.args, self.kwargs, self.changes = "m:f", args, {}, changes


def test_an_entry_point_with_fewer_siblings_answers_otherwise(siblings: Any) -> None:
    table = {"m:f": [max, min]}
    assert [siblings.answer_as(table, n, lambda _: "own", Call(([1, 2],))) for n in range(3)] == [2, 1, "own"]


def test_a_change_of_an_argument_that_the_reference_does_not_make_is_an_error(siblings: Any) -> None:
    table = {"m:f": [list.sort]}
    with pytest.raises(siblings.ChangedArgument):
        siblings.answer_as(table, 0, len, Call(([2, 1],)))
    assert siblings.answer_as(table, 0, len, Call(([2, 1],), [["items", []]])) is None
