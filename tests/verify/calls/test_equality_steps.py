"""Comparing without order takes few steps, and agrees with trying all orders."""

from __future__ import annotations

import itertools
import math
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verify.calls import equality, same_answer

from .answer_values import encoded

pytestmark = pytest.mark.quick
SLACK = 4 * math.ulp(3.0)
CLOSE = st.sampled_from([0, 3, 2.5, 3.0, 3.0 + SLACK, 3.0 + 2 * SLACK, 3.0 - SLACK, "f", True, None, 10**30])
"""Numbers that agree with some of each other, but not with all. All floats have one ulp: the slack is equal at every
place."""
KEYS = st.recursive(CLOSE, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
TREES = st.recursive(
    KEYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)


def answer(tree: Any) -> Any:
    return ([0, "ok", tree],)


def same_by_trying(one: Any, two: Any) -> bool:
    """Compares two Python values by every order of their sets and dictionaries."""
    if isinstance(one, dict) and isinstance(two, dict):
        return same_by_trying([*one.items()], [*two.items()]) or any(
            same_by_trying([*one.items()], [*order]) for order in itertools.permutations(two.items())
        )
    if isinstance(one, frozenset) and isinstance(two, frozenset):
        return any(same_by_trying([*one], [*order]) for order in itertools.permutations(two))
    if isinstance(one, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(same_by_trying, one, two))
    if type(one) is float and type(two) in (int, float):
        return abs(one - two) <= SLACK
    numbers = type(one) in (int, float) and type(two) in (int, float)
    return (numbers or type(one) is type(two)) and bool(one == two)


@given(TREES, TREES)
def test_two_values_agree_where_some_order_of_theirs_does(one: Any, two: Any) -> None:
    assert same_answer(answer(encoded(one)), answer(encoded(two))) is same_by_trying(one, two)


@given(TREES, st.randoms(use_true_random=False))
def test_a_changed_number_is_seen_where_no_order_hides_it(one: Any, rng: random.Random) -> None:
    choices = {3.0: (3.0, 3.0 + SLACK, 3.0 + 2 * SLACK), 3.0 + SLACK: (3.0, 3.0 + SLACK)}

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {changed(key): changed(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | frozenset):
            return type(value)(changed(inner) for inner in value)
        return rng.choice(choices[value]) if type(value) is float and value in choices else value

    two = changed(one)
    assert same_answer(answer(encoded(one)), answer(encoded(two))) is same_by_trying(one, two)


def nested(depth: int, last: float) -> Any:
    tree: Any = ["F", ["f", last.hex()]]
    for n in range(depth):
        tree = ["F", ["f", (1.0 + n).hex()], tree]
    return tree


def steps_of(one: Any, two: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, int]:
    counter = itertools.count(1)
    monkeypatch.setattr(equality.itertools, "count", lambda _: counter)
    return same_answer(answer(one), answer(two)), next(counter) - 1


def test_nested_sets_that_differ_at_the_bottom_take_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    same, steps = steps_of(nested(60, 0.5), nested(60, 0.25), monkeypatch)
    assert not same
    assert steps < 1000


@pytest.mark.long
def test_a_wide_search_ends_at_the_limit_and_does_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(item: int) -> Any:
        rng = random.Random(item)
        return ["F", *[["t", ["f", (1 + rng.random()).hex()], ["f", rng.random().hex()]] for _ in range(190)]]

    one, two = [["S", *[wide(n + start) for n in range(50)]] for start in (0, 1000)]
    began = time.process_time()
    same, steps = steps_of(one, two, monkeypatch)
    assert not same
    assert steps == equality.MAX_STEPS + 1
    assert time.process_time() - began < 10


@pytest.mark.long
def test_large_sets_without_floats_take_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [["t", n, ["F", n, n + 1]] for n in range(3000)]
    mixed = random.Random(1).sample(items, len(items))
    assert steps_of(["d", ["F", *items], 1, "k", 2], ["d", "k", 2, ["F", *mixed], 1], monkeypatch) == (True, 1)
    same, steps = steps_of(["S", *items], ["S", *mixed[1:], 7], monkeypatch)
    assert not same
    assert steps < 10


def test_more_close_tuples_than_before_agree_in_any_order() -> None:
    pairs = [((n // 2) * 1.0, n * 1.0) for n in range(150)]
    moved = [(math.nextafter(a, 9), math.nextafter(b, -9)) for a, b in pairs]
    one, two = [["S", *map(encoded, row)] for row in (pairs, random.Random(1).sample(moved, 150))]
    assert same_answer(answer(one), answer(two))
