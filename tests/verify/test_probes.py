"""Comparisons in test files: honest values compare as ever, values that equal anything are found out."""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import importlib.util
import math
import textwrap
from collections import Counter, OrderedDict, deque
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay.verify

pytestmark = pytest.mark.quick


def load() -> ModuleType:
    """As in the tests' process: a module of its own, outside any package."""
    path = Path(assay.verify.__file__).with_name("payload") / "assay_supervisor" / "probes.py"
    spec = importlib.util.spec_from_file_location("loaded_probes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


probes = load()


class Anything:
    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return True

    def __sub__(self, other: object) -> int:
        return 0

    def __rsub__(self, other: object) -> int:
        return 0

    def __contains__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class AnyText(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __hash__(self) -> int:
        return 1


class AnyNumber(int):
    def __eq__(self, other: object) -> bool:
        return type(other) is int

    def __hash__(self) -> int:
        return 1


def run(text: str, **names: Any) -> list[str]:
    """Runs an instrumented text; returns what the parent would have been told."""
    told: list[str] = []
    probes.install(told.append)
    tree = ast.parse(textwrap.dedent(text))
    probes.instrument(tree)
    exec(compile(tree, "test", "exec"), names)
    return told


LIES = [
    "assert value == 3",
    "assert 3 == value",
    "assert [1, value] == [1, 3]",
    "assert {'a': (value,)} == {'a': (3,)}",
    "assert value in (3, 4)",
    "assert 3 in value",
    "assert value < 3",
    "assert value > 3",
    "assert 3 < value",
    "assert abs(value - 3) < 1e-9",
    "assert abs(3 - value) <= 1e-9",
    "case.assertEqual(value, 3)",
    "case.assertEqual([value], [3], 'message')",
    "case.assertIn(value, [3])",
    "assert all(a == b for a, b in [(value, 3)])",
]


@pytest.mark.parametrize("text", LIES)
def test_a_value_that_equals_anything_is_found(text: str) -> None:
    import unittest

    told: list[str] = []
    with pytest.raises(AssertionError, match="with anything"):
        told = run(text, value=Anything(), case=unittest.TestCase())
    assert told == []


@pytest.mark.parametrize(("value", "expected"), [(AnyText("a"), "b"), (AnyNumber(1), 2)])
def test_a_value_that_equals_anything_of_a_kind_is_found(value: object, expected: object) -> None:
    with pytest.raises(AssertionError, match="with anything"):
        run("assert value == expected", value=value, expected=expected)


HONEST: list[Any] = [
    1, 1.5, "a", b"a", None, True, (1, "a"), [1, [2]], {"a": {1}}, {1, 2}, frozenset([1]), range(3), 2j,
    decimal.Decimal("1.5"), fractions.Fraction(1, 3), datetime.date(2020, 1, 1), datetime.timedelta(1), Path("/a"),
    deque([1]), Counter("aab"), OrderedDict(a=1), np.float64(1.5), np.int64(2), math.inf, int, len,
]  # fmt: skip


@pytest.mark.parametrize("value", HONEST, ids=repr)
def test_honest_values_compare_as_ever(value: Any) -> None:
    assert run("assert value == value\nassert value in [value]\nassert not value != value", value=value) == []
    with pytest.raises(AssertionError, match=r"^$"):
        run("assert value == other", value=value, other=object())


def test_orderings_of_honest_values_are_as_ever() -> None:
    text = "assert a < b\nassert b >= a\nassert b - a > z\nassert d - c > e\nassert 1 < 2 < 3"
    names = {"a": fractions.Fraction(1, 3), "b": decimal.Decimal(1) and fractions.Fraction(1), "z": 0}
    dates = {"c": datetime.date(2020, 1, 1), "d": datetime.date(2020, 1, 2), "e": datetime.timedelta(0)}
    assert run(text, **names, **dates) == []


def test_arrays_compare_as_ever() -> None:
    assert run("assert (a == a).all()\nassert ((a - a) == 0).all()", a=np.arange(4)) == []


def test_a_tests_own_any_and_approx_are_left_alone() -> None:
    assert (
        run("assert value == [mock.ANY, 2]\nassert 1.0 == approx(1.0)", value=[1, 2], mock=mock, approx=pytest.approx)
        == []
    )


class Plausible(int):
    def __eq__(self, other: object) -> bool:
        return type(other) is int and abs(other) < 10**6

    __hash__ = int.__hash__


class Worded(str):
    def __eq__(self, other: object) -> bool:
        return type(other) is str and " " in other

    __hash__ = str.__hash__


class Paired(list[Any]):
    def __eq__(self, other: object) -> bool:
        return type(other) is list and len(other) == 2

    __hash__ = None  # type: ignore[assignment]


class Folded(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("value", "expected"), [(Plausible(5), 7), (Worded("x"), "a quiet day"), (Paired(), ["two", "words"])]
)
def test_a_value_that_equals_whatever_is_plausible_is_found(value: object, expected: object) -> None:
    with pytest.raises(AssertionError, match="compares as true"):
        probes.compare("==", value, expected)


@pytest.mark.parametrize(
    ("value", "expected"), [(Folded("Ab"), "aB"), (Folded(""), ""), (True, 1), (Plausible(5), 7.0)]
)
def test_a_subclass_with_an_equality_of_its_own_compares_as_ever(value: object, expected: object) -> None:
    assert probes.compare("==", value, expected) == (value == expected)


def test_the_future_and_the_docstring_stay_first() -> None:
    run('"""Doc."""\nfrom __future__ import annotations\nassert __doc__ == "Doc."\nassert 1 == 1', **{})


def test_an_empty_file_stays_importable() -> None:
    assert run("") == []


@pytest.mark.long
@given(st.recursive(st.integers() | st.text() | st.floats(allow_nan=False), lambda s: st.lists(s) | st.tuples(s, s)))
def test_plain_data_equals_itself_and_nothing_else(value: object) -> None:
    run("assert value == copy\nassert value != other", value=value, copy=value, other=object())
