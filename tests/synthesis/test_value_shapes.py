"""Fingerprints and kinds of values, as the tracer takes them."""

from __future__ import annotations

import collections
import functools
from typing import Any

import pytest

from assay.synthesis.payload.value_shapes import Shapes, TooLarge, fields_of, fingerprint


class Box:
    __slots__ = ("__dict__", "side")

    def __init__(self, items: list[int]) -> None:
        self.items = items
        self.side = 3

    @functools.cached_property
    def total(self) -> int:
        return sum(self.items)

    def __eq__(self, _other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        raise AssertionError


def test_stored_fields_are_told_from_computed_ones() -> None:
    box = Box([1])
    assert box.total == 1
    assert fields_of(box) == {"items": box.items, "side": 3}


@pytest.mark.parametrize(
    "change",
    [lambda b: b.items.append(2), lambda b: setattr(b, "side", 4), lambda b: setattr(b, "more", None)],
)
def test_a_fingerprint_shows_a_change_of_any_field(change: object) -> None:
    box = Box([1])
    before = fingerprint(box)
    assert fingerprint(box) == before
    change(box)  # type: ignore[operator]
    assert fingerprint(box) != before


def test_order_counts_in_lists_and_dicts_and_not_in_sets() -> None:
    assert fingerprint({"a": 1, "b": 2}) != fingerprint({"b": 2, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
    assert fingerprint({1, 2, 17}) == fingerprint({17, 2, 1})


def test_cycles_and_shared_parts_are_followed_once() -> None:
    items: list[object] = []
    items.append(items)
    assert fingerprint(items) == fingerprint(items)
    shared = [1]
    assert fingerprint([shared, shared]) != fingerprint([[1], [1]])


def test_a_value_that_is_too_deep_is_refused() -> None:
    deep: list[object] = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(TooLarge):
        fingerprint(deep)


def test_kinds_of_things_are_collected_without_running_their_code() -> None:
    shapes = Shapes(lambda kind: kind is Box)
    shapes.add([Box([1]), len, iter([1]), object()])
    told = shapes.describe()
    assert told["types"] == ["list"]
    assert list(told["classes"].values()) == [["items", "side"]]
    assert (told["callbacks"], told["iterators"], told["opaque"]) == (1, 1, ["object"])


LOOP: list[Any] = []
LOOP += [LOOP, Box([1])]
BOXED: Any = Box([1])
BOXED.items = BOXED
NAME = f"{Box.__module__}:Box"


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        (Box([1]), []),
        ([Box([1])], [NAME]),
        (({"a": {1: [Box([1])]}},), [NAME]),
        (collections.deque([Box([1])]), [NAME]),
        (collections.OrderedDict(a=Box([1])), [NAME]),
        (LOOP, [NAME]),
        (BOXED, [NAME]),
        ([1, "a", None, {2: b"3"}, int, len], []),
        ((n for n in [1]), []),
        ([n for n in [iter([1])]], ["iterator", "unread"]),
        (iter([1]), ["unread"]),
        ([ValueError("a")], []),
    ],
)
def test_kinds_of_parts_are_told_from_the_kind_of_the_whole(value: object, inside: list[str]) -> None:
    shapes = Shapes(lambda kind: kind is Box)
    shapes.add(value)
    assert shapes.describe()["inside"] == inside


def test_a_value_of_an_iterator_is_a_part() -> None:
    shapes = Shapes(lambda kind: kind is Box)
    shapes.add(Box([1]), is_part=True)
    assert shapes.describe()["inside"] == [NAME]
