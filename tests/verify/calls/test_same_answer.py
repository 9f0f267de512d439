"""Comparing answers: reflexive, symmetric, without order, floats within the tolerance and integers exactly."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.verify.calls import read_json_answer, same_answer
from assay.verify.payload.plain_values import read_plain

from .answer_values import SCALARS, STANDARD, TAGS, VALUES, encoded, read, values_of

pytestmark = pytest.mark.quick
ANSWERS = values_of(SCALARS | STANDARD | TAGS)
FEW = values_of(
    st.sampled_from(
        [0, 1, 2, True, None, 0.5, 1.5, math.nextafter(1.5, 2), "v", "f", "c", "d", b"", 1j, Fraction(1, 2)]
    )
)
"""Few scalars, so that two values often agree in part."""
RANDOM = st.builds(random.Random, st.integers(0, 1 << 32))
"""Not `st.randoms`, whose draws hypothesis repeats: their number depends on whether two NaN of a set are one object."""


def answer(tree: Any) -> Any:
    return ([0, "ok", tree],)


def each_number(tree: Any, change: Callable[[float], float]) -> Any:
    """Returns the tree with its finite floats changed."""
    if not isinstance(tree, list):
        return tree
    if tree[0] not in ("f", "c"):
        return [tree[0], *[each_number(part, change) for part in tree[1:]]]
    numbers = [float.fromhex(part) for part in tree[1:]]
    pairs = [(old, change(old)) for old in numbers]
    return [tree[0], *[(new if math.isfinite(old + new) else old).hex() for old, new in pairs]]


def shuffled(tree: Any, rng: random.Random) -> Any:
    """Returns the tree with its sets and dictionaries in another order."""
    if not isinstance(tree, list):
        return tree
    parts = [shuffled(part, rng) for part in tree[1:]]
    width = {"S": 1, "F": 1, "d": 2}.get(tree[0], 0)
    if width:
        items = [parts[at : at + width] for at in range(0, len(parts), width)]
        rng.shuffle(items)
        parts = [part for item in items for part in item]
    return [tree[0], *parts]


@pytest.mark.long
@given(ANSWERS)
def test_every_answer_agrees_with_itself(value: Any) -> None:
    found = read(value, value)
    assume(found is not None)  # two NaN in a set have one encoding
    assert same_answer(found, found)


@given(ANSWERS, RANDOM)
def test_sets_and_dictionaries_agree_in_any_order(value: Any, rng: random.Random) -> None:
    tree = encoded(value)
    assert same_answer(answer(tree), answer(shuffled(tree, rng)))


@pytest.mark.long
@given(FEW, FEW)
def test_two_answers_agree_in_both_directions_or_in_none(one: Any, two: Any) -> None:
    first, second = answer(encoded(one)), answer(encoded(two))
    assert same_answer(first, second) == same_answer(second, first)


@pytest.mark.long
@given(ANSWERS, ANSWERS)
def test_any_two_answers_are_compared_without_an_error(one: Any, two: Any) -> None:
    same_answer(answer(encoded(one)), answer(encoded(two)), tolerance=1e-6)
    same_answer(answer(encoded([one, two])), answer(encoded([two, one])))


@pytest.mark.long
@given(ANSWERS, RANDOM)
def test_an_ulp_anywhere_is_accepted_in_both_directions(value: Any, rng: random.Random) -> None:
    tree = encoded(value)
    nudged = each_number(tree, lambda number: math.nextafter(number, rng.choice((-math.inf, math.inf))))
    nudged = shuffled(nudged, rng)
    assert same_answer(answer(tree), answer(nudged))
    assert same_answer(answer(nudged), answer(tree))


@pytest.mark.long
@given(ANSWERS, RANDOM)
def test_the_tolerance_is_accepted_anywhere(value: Any, rng: random.Random) -> None:
    tree = encoded(value)
    nudged = shuffled(each_number(tree, lambda number: number * (1 + rng.uniform(-4e-7, 4e-7))), rng)
    assert same_answer(answer(tree), answer(nudged), tolerance=1e-6)


@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: [x], lambda x: (1, x), lambda x: {x}, lambda x: {"v": x}, lambda x: {x: 1},
     lambda x: {"a": [{(x, "f")}]}, lambda x: [{"c": {"d": x}}]],
)  # fmt: skip
def test_more_than_the_tolerance_is_refused_anywhere(wrap: Callable[[float], Any]) -> None:
    assert same_answer(read(wrap(0.3)), read(wrap(0.1 + 0.2)))
    assert not same_answer(read(wrap(0.3)), read(wrap(0.3000001)))
    assert same_answer(read(wrap(0.3)), read(wrap(0.3000001)), tolerance=1e-6)
    assert not same_answer(read(wrap(0.3)), read(wrap(0.3001)), tolerance=1e-6)


@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
@pytest.mark.parametrize(
    "wrap",
    [lambda large, small: (large, small), lambda large, small: {"mass": large, "radius": small},
     lambda large, small: [(large, small), (-large, -small)], lambda large, small: [{"k": {small}}, {"m": {large}}],
     lambda large, small: {"a": [large], "b": {"c": [[small]]}}],
)  # fmt: skip
def test_a_large_number_excuses_no_other_one_at_another_place(
    wrap: Callable[[float, float], Any], tolerance: float
) -> None:
    reference = read(wrap(5.97e24, 6371.5))
    assert same_answer(reference, read(wrap(5.97e24 * (1 + 2**-52), math.nextafter(6371.5, 0))), tolerance=tolerance)
    assert not same_answer(reference, read(wrap(5.97e24, 1.0)), tolerance=tolerance)
    assert not same_answer(reference, read(wrap(5.97e24, 6371.6)), tolerance=tolerance)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([[1e6, 1e-11], [2e-11, 3e6]], [[1e6, 0.0], [-1e-11, 3e6]]),
        ([("a", 1e6), ("b", 1e-11)], [("a", 1e6), ("b", 0.0)]),
        ({1: 1e6, 2: 1e-11}, {1: 1e6, 2: 0.0}),
        ((0.3, 1e-17), (0.3, 0.0)),
        ({"a": 0.3, "b": 1e-17}, {"a": 0.3, "b": 0.0}),
    ],
)
def test_a_residue_of_rounding_among_larger_numbers_agrees_with_zero(one: Any, two: Any) -> None:
    assert same_answer(read(one), read(two))


def integers_of(tree: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Returns where the tree has small integers."""
    if type(tree) is int:
        return [path]
    inner = tree[1:] if isinstance(tree, list) else []
    return [found for n, part in enumerate(inner, 1) for found in integers_of(part, (*path, n))]


def with_next(tree: Any, path: tuple[int, ...]) -> Any:
    if not path:
        return tree + 1
    return [with_next(part, path[1:]) if n == path[0] else part for n, part in enumerate(tree)]


@pytest.mark.long
@given(VALUES, RANDOM)
def test_one_other_integer_anywhere_is_refused(value: Any, rng: random.Random) -> None:
    tree = ["l", ["f", (1e300).hex()], 7, encoded(value)]
    other = with_next(tree, rng.choice(integers_of(tree)))
    assert not same_answer(answer(tree), answer(other), tolerance=1e-6)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ([1e17, 5], [1e17, 5.0], True),
        ([1e17, 5], [1e17, 50.0], False),
        ([1e17, 5], [1e17, 50], False),
        ([3.0000000000000004], [3], True),
        ([10**17], [1e17], True),
        ([10**17 + 1], [1e17], False),
        ({1.5, 1.5 + 2**-52}, {1.5 + 2**-52, 1.5 + 2**-51}, True),
    ],
)
def test_where_the_reference_has_an_integer_the_number_is_exact(one: Any, two: Any, same: bool) -> None:
    assert same_answer(read(one), read(two)) is same


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (["Decimal", "150E-2"], ["Decimal", "15E-1"], True),
        (["Decimal", "-0E3"], ["Decimal", "0E0"], True),
        (["Decimal", "-15E-1"], ["Decimal", "15E-1"], False),
        (["Decimal", "100E0"], ["Decimal", "1E2"], True),
        (["Decimal", "1E2"], ["Decimal", "1E3"], False),
        (["datetime", "2020-01-01T00:30:00.000000+01:00"], ["datetime", "2019-12-31T23:30:00.000000+00:00"], True),
        (["datetime", "2020-01-01T00:30:00.000000+01:00"], ["datetime", "2020-01-01T00:30:00.000000"], False),
        (["datetime", "0001-01-01T00:00:00.000000+01:00"], ["datetime", "0001-01-01T00:00:00.000000+02:00"], False),
        (["time", "12:00:00.000000+00:00"], ["time", "13:00:00.000000+01:00"], True),
        (["time", "12:00:00.000000 fold"], ["time", "12:00:00.000000"], True),
        (["time", "12:00:00.000000"], ["time", "12:00:00.000001"], False),
    ],
)
def test_values_of_the_standard_library_agree_where_python_says_equal(one: list[str], two: list[str], same: bool):
    assert same_answer(answer(["v", *one]), answer(["v", *two])) is same
    assert (read_plain(*one) == read_plain(*two)) is same


def test_numbers_with_one_hash_are_compared_in_time() -> None:
    one, two = [["S", *[["i", hex(n * (2**61 - 1) + k)] for n in range(1, 9000)]] for k in (0, 1)]
    began = time.process_time()
    assert not same_answer(answer(one), answer(two))
    assert time.process_time() - began < 5


def test_a_large_set_of_close_floats_agrees_in_any_order() -> None:
    numbers = [1 + n * 2**-52 for n in range(500)]
    assert same_answer(read(set(numbers)), answer(["S", *[["f", n.hex()] for n in reversed(numbers)]]))


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ('{"v": 2}', '{"v": 2}', True),
        ('{"v": {}}', '{"v": {}}', True),
        ('{"f": "zz"}', '{"f": "yy"}', False),
        ('{"c": "zz", "i": "0x5"}', '{"i": "0x5", "c": "zz"}', True),
        ("[0.30000000000000004]", "[0.3]", True),
        ('{"a": {"b": 0.30000000000000004}}', '{"a": {"b": 0.3}}', True),
        ("[0.3]", "[0.3000001]", False),
        ("[1e17, 5]", "[1e17, 6]", False),
    ],
)
def test_answers_in_json_are_compared_by_the_same_rules(one: str, two: str, same: bool) -> None:
    first, second = [read_json_answer(f'{{"result": {text}}}') for text in (one, two)]
    assert first is not None
    assert second is not None
    assert same_answer(first, second) is same
    assert same_answer(second, first) is same
