"""Answers that are instances: all that they hold is compared, and one of which nothing is seen has no answer."""

from __future__ import annotations

import collections
import enum
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from assay.verify.calls.equality import same_answer
from assay.verify.payload import value_codec as codec

from .answer_values import encoded, read

pytestmark = pytest.mark.quick


@dataclass
class Span:
    start: int
    end: int


class Chain:
    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self.items))

    def __len__(self) -> int:
        return len(self.items)


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left: Any) -> None:
        self.left = left


class Tagged(list[int]):
    def __init__(self, items: Any, tag: str) -> None:
        super().__init__(items)
        self.tag = tag


class Version(str):
    def __eq__(self, other: object) -> bool:
        return str(self).split(".") == str(other).split(".")

    __hash__ = str.__hash__


class Label(str):
    __slots__ = ()


class Frozen(Mapping[str, int]):
    def __init__(self, **held: int) -> None:
        self._held = held

    def __getitem__(self, key: str) -> int:
        return self._held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


@dataclass
class Node:
    name: str
    parent: Any = None
    children: list[Any] = field(default_factory=list)

    @functools.cached_property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1


class Listed(type):
    def __iter__(cls) -> Iterator[int]:
        return iter(())

    def __len__(cls) -> int:
        return 0


class Bare(metaclass=Listed):
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def tree(name: str) -> Node:
    root = Node("root")
    root.children = [Node("a", root), Node(name, root)]
    return root


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Span(1, 2), Span(1, 3)),
        ([Span(1, 2)], [Span(0, 0)]),
        ({"k": Span(1, 2)}, {"k": Span(1, 3)}),
        (Chain(3, 1), Chain(1, 3)),
        (Slotted(1), Slotted(2)),
        (Tagged([1], "a"), Tagged([1], "b")),
        (Tagged([1], "a"), Tagged([2], "a")),
        (Tagged([1], "a"), [1]),
        (Version("1.2"), Version("1.3")),
        (Frozen(a=1), Frozen(a=2)),
        (tree("b"), tree("c")),
        (Colour.RED, Colour.BLUE),
        (Bare(), Chain()),
        (ValueError("a"), ValueError("b")),
        (collections.Counter("ab"), collections.Counter("aab")),
        (collections.deque([1, 2]), collections.deque([2, 1])),
        (collections.deque([1, 2]), [1, 2]),
        (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
        (Label("a"), "a"),
        (re.compile("a"), re.compile("b")),
        (functools.partial(int, "1"), functools.partial(int, "2")),
        (Span, Node),
        (tree, read),
        (Span(1, 2), (1, 2)),
        ({"a": 1}.keys(), {"b": 1}.keys()),
        (Chain(*range(500)), Chain(*range(499), 0)),
    ],
)
def test_what_an_instance_holds_is_compared(one: Any, two: Any) -> None:
    assert same_answer(read(one), read(one))
    assert not same_answer(read(one), read(two))
    assert not same_answer(read(two), read(one))


def test_an_instance_that_leads_back_to_itself_has_an_end() -> None:
    assert encoded(tree("b"))[2][2] == [
        "l",
        *(["x", f"{__name__}.Node", ["d", "children", ["l"], "name", name, "parent", ["b", 2]]] for name in "ab"),
    ]


def test_what_only_the_other_solution_caches_is_not_compared() -> None:
    one, two = tree("b"), tree("b")
    assert two.children[0].depth == 1
    two.extra = "a cache"  # type: ignore[attr-defined]
    assert same_answer(read(one), read(two))
    assert not same_answer(read(two), read(one)), "the reference's fields are all compared"


@pytest.mark.parametrize("value", [lambda: 1, [lambda: 1], Span(1, lambda: 2), functools.lru_cache(len)])  # type: ignore[arg-type]
def test_a_value_of_which_nothing_is_seen_has_no_encoding(value: Any) -> None:
    with pytest.raises(codec.EncodingError):
        encoded(value)


def test_contents_that_do_not_end_have_no_encoding() -> None:
    class Endless:
        __slots__ = ()

        def __iter__(self) -> Iterator[int]:
            while True:
                yield 1

        def __len__(self) -> int:
            return 1

    with pytest.raises(codec.EncodingError):
        encoded(Endless())


def test_state_that_a_writing_descriptor_keeps_under_its_own_name_is_seen() -> None:
    class Positive:
        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, held: Any, owner: type) -> Any:
            return held.__dict__[self.name]

        def __set__(self, held: Any, value: int) -> None:
            held.__dict__[self.name] = abs(value)

    class Size:
        width = Positive()

        def __init__(self, width: int) -> None:
            self.width = width

    assert not same_answer(read(Size(1)), read(Size(2)))
