"""Compares two answers of call workers: sets and dictionaries without order, floats within a tolerance.

Of instances, the fields that the reference's have are compared.

Both trees are built once from their leaves up, and equal parts of either become one object. So most parts are compared
by a number, whatever their size and order, and no two parts are compared twice. Invariant: the time grows with the
sizes of the answers and at most `MAX_STEPS` comparisons, whatever a worker sends. Numbers are looked up by texts, whose
hashes a worker cannot choose: equal hashes of integers or fractions would make every look-up slow.

How far two floats may differ depends on the reference's largest float at the same place: at the same index of tuples
and under the same text key of dictionaries, whatever the position in lists and sets. A large number in one field of a
record thus excuses nothing in another field, but a residue of rounding among large numbers of a list agrees with 0.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from assay.verify.payload.plain_values import read_plain

from .answers import Answer, is_number, read_number

MAX_STEPS = 200_000
"""Comparisons of parts of one answer. Answers that take more do not agree: the worker's answer counts as wrong, and
an input whose reference takes more is not fair."""
MAX_UNORDERED = 200
"""Items of a set whose floats are matched one by one, where their order by rounded value does not match."""
ULPS = 4
_WIDTHS = {"S": 1, "F": 1, "B": 1, "d": 2}
"""Collections without order, and the parts of an item of each."""
_ORDERED = ("l", "t", "r", "I", "c", "x")
_NUMBER = "#"


class _TooManyStepsError(Exception):
    """The answer takes more than `MAX_STEPS` comparisons."""


def same_answer(reference: Answer, other: Answer, *, tolerance: float = 0.0) -> bool:
    """Returns whether two answers agree: sets and dictionaries without order, floats within the tolerance.

    Where the reference has an integer, the other must have exactly that number. An answer with the same types agrees
    with another one in both directions or in none, but for floats at the very edge of the tolerance and answers that
    take more than `MAX_STEPS` comparisons, which do not agree.

    Args:
        reference: The answer that is right. Its largest float at a place defines 4 ulp there; below 1.0, the lesser of
            1.0 and the answer's largest float does.
        other: The worker's answer.
        tolerance: Relative tolerance of floats; 0 for 4 ulp.
    """
    if isinstance(reference, str) or isinstance(other, str) or len(reference) != len(other):
        return False
    steps = itertools.count(1)
    try:
        return all(_same_outcome(one, two, tolerance, steps) for one, two in zip(reference, other, strict=True))
    except _TooManyStepsError:
        return False


def _same_outcome(one: Any, two: Any, tolerance: float, steps: Iterator[int]) -> bool:
    if one[0] != two[0] or one[1] != two[1] or len(one) != len(two):
        return False
    if one[1] == "!":
        return bool(one[2] == two[2])
    if one[1] != "ok" or repr(one) == repr(two):
        return True
    values, names = _Values(), _field_names(one[2:])
    first = [values.build(tree) for tree in one[2:]]
    second = [values.build(_with_fields(tree, names)) for tree in two[2:]]
    matcher = _Matcher(first, tolerance, steps)
    return all(matcher.same(a, b, number) for number, (a, b) in enumerate(zip(first, second, strict=True)))


def _field_names(trees: Sequence[Any]) -> dict[str, set[str]]:
    """Returns the names of the fields of each class in the reference's answer."""
    names: dict[str, set[str]] = {}
    todo = list(trees)
    while todo:
        tree = todo.pop()
        if isinstance(tree, list):
            todo += tree[1:]
            if tree[0] == "x":
                names.setdefault(tree[1], set()).update(tree[2][1::2])
    return names


def _with_fields(tree: Any, names: dict[str, set[str]]) -> Any:
    """Returns the tree without fields that the reference's instances do not have, such as caches."""
    if not isinstance(tree, list):
        return tree
    if tree[0] == "x" and tree[1] in names:
        pairs = zip(tree[2][1::2], tree[2][2::2], strict=True)
        fields = [part for name, value in pairs if name in names[tree[1]] for part in (name, value)]
        tree = ["x", tree[1], ["d", *fields], *tree[3:]]
    return [tree[0], *(_with_fields(part, names) for part in tree[1:])]


class _Value:
    """Part of an answer; parts with equal content and types are one object.

    `equal` and `rounded` number the part's content without order and types of numbers: parts with one `equal` are
    equal, parts with one `rounded` are so after rounding, and `exact` sorts these. `scale` is the largest finite float.
    """

    __slots__ = ("equal", "exact", "head", "inexact", "items", "number", "rounded", "scale", "tag")

    def __init__(self, tag: str, head: Any, number: Any, items: tuple[tuple[_Value, ...], ...]) -> None:
        parts = [part for item in items for part in item]
        self.tag, self.head, self.number, self.items = tag, head, number, items
        self.inexact: bool = isinstance(number, float) or any(part.inexact for part in parts)
        own = abs(number) if isinstance(number, float) and math.isfinite(number) else 0.0
        self.scale: float = max(own, max((part.scale for part in parts), default=0.0))
        self.equal = self.rounded = 0
        self.exact: Any = tuple(tuple(part.exact for part in item) for item in items)
        if number is not None:
            self.exact = 0 if number != number else number


class _Values:
    """Builds the parts of two answers, each once."""

    def __init__(self) -> None:
        self._made: dict[Any, _Value] = {}
        self._classes: dict[Any, int] = {}

    def build(self, tree: Any) -> _Value:
        if is_number(tree):
            return self._number(read_number(tree))
        if not isinstance(tree, list):
            return self._value("", (type(tree).__name__, tree), ())
        tag = tree[0]
        if tag == "c":
            return self._value(tag, None, tuple((self._number(float.fromhex(part)),) for part in tree[1:]))
        if tag == "v":
            return self._value(tag, (tree[1], _plain_key(*tree[1:])), ())
        if tag not in _WIDTHS and tag not in _ORDERED:
            return self._value(tag, tuple(tree[1:]), ())
        head, inner = (tree[1], tree[2:]) if tag == "x" else (None, tree[1:])
        parts, width = [self.build(part) for part in inner], _WIDTHS.get(tag, 1)
        items = [tuple(parts[at : at + width]) for at in range(0, len(parts), width)]
        if tag in _WIDTHS:
            items.sort(key=_order)
        return self._value("S" if tag == "F" else tag, head, tuple(items))

    def _number(self, number: float) -> _Value:
        text = _number_key(number)
        return self._intern((_NUMBER, type(number), text), (_NUMBER, text), (_NUMBER, _round(number)), number)

    def _value(self, tag: str, head: Any, items: tuple[tuple[_Value, ...], ...]) -> _Value:
        equal = [tuple(part.equal for part in item) for item in items]
        rounded = tuple(tuple(part.rounded for part in item) for item in items)
        if tag in _WIDTHS:
            equal.sort()
        return self._intern((tag, head, items), (tag, head, tuple(equal)), (tag, head, rounded), None)

    def _intern(self, key: Any, equal: Any, rounded: Any, number: Any) -> _Value:
        made = self._made.get(key)
        if made is None:
            tag, head, items = (_NUMBER, None, ()) if number is not None else key
            made = self._made[key] = _Value(tag, head, number, items)
            made.equal = self._classes.setdefault(("equal", equal), len(self._classes))
            made.rounded = self._classes.setdefault(("rounded", rounded), len(self._classes))
        return made


def _order(item: tuple[_Value, ...]) -> Any:
    return tuple(part.rounded for part in item), tuple(part.exact for part in item)


def _number_key(number: float) -> str:
    """Returns a text that is the same for equal numbers of both types."""
    return hex(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)


def _round(number: float) -> str:
    """Returns a text that is the same for most numbers that are close; exact for an integer beyond all floats."""
    with contextlib.suppress(OverflowError):
        return f"{number or 0:.6e}"
    return _number_key(number)


def _plain_key(name: str, text: str) -> str:
    """Returns a text that is the same for equal values: decimals without trailing zeros, moments in one time zone."""
    if name == "Decimal":
        digits, exponent = text.split("E") if "E" in text else (text, "0")
        short = digits.rstrip("0")
        return f"{short}E{int(exponent) + len(digits) - len(short)}" if short.strip("-") else "0"
    if name in ("time", "datetime"):
        text = text.removesuffix(" fold")
        value = read_plain(name, text)
        offset = value.utcoffset()
        if offset is not None:
            day = value.toordinal() if name == "datetime" else 0
            clock = timedelta(day, value.second, value.microsecond, 0, value.minute, value.hour)
            return f"{clock - offset!r}"
    return text


class _Places:
    """Numbers the places of an answer, and measures the largest float at each in the reference.

    Args:
        reference: The parts of the reference; the place of each is its position.
    """

    def __init__(self, reference: Sequence[_Value]) -> None:
        self._numbers: dict[tuple[int, Any], int] = {}
        self._count = len(reference)
        self.largest: dict[int, float] = {}
        """Place to its largest finite float; without places that have none."""
        todo = list(enumerate(reference))
        visited = set(todo)
        while todo:
            place, value = todo.pop()
            if isinstance(value.number, float):
                self.largest[place] = max(self.largest.get(place, 0.0), value.scale)
            for number, item in enumerate(value.items):
                inner = set(zip(self.below(place, value, number), item, strict=True)) - visited
                visited |= inner
                todo += inner

    def below(self, place: int, value: _Value, number: int) -> list[int]:
        """Returns the places of the parts of an item, given the place of the value that holds it."""
        item = value.items[number]
        if value.tag == "d":
            key = item[0].head if item[0].tag == "" else None
            steps: list[Any] = ["key", ("value", key[1] if key and key[0] == "str" else None)]
        else:
            steps = [number if value.tag == "t" else "item"]
        return [self._number(place, step) for step in steps]

    def _number(self, place: int, step: Any) -> int:
        key = place, step
        if key not in self._numbers:
            self._numbers[key] = self._count
            self._count += 1
        return self._numbers[key]


class _Matcher:
    """Compares parts whose floats may differ by 4 ulp or the tolerance at the magnitude of their place.

    Args:
        reference: The parts of the reference.
        tolerance: As in `same_answer`.
        steps: Counts the comparisons of the whole answer.
    """

    def __init__(self, reference: Sequence[_Value], tolerance: float, steps: Iterator[int]) -> None:
        self._places = _Places(reference)
        self._tolerance = tolerance
        self._least = min(1.0, max((part.scale for part in reference), default=0.0))
        """Least magnitude of a place: a residue of rounding may be the only number at its place."""
        self._steps = steps
        self._compared: dict[tuple[_Value, _Value, int], bool] = {}

    def same(self, one: _Value, two: _Value, place: int) -> bool:
        """Returns whether a part of the reference, at a place, agrees with another one. Raises `_TooManyStepsError`."""
        self._count()
        if one.equal == two.equal:
            return True
        if not one.inexact or (one.tag, one.head, len(one.items)) != (two.tag, two.head, len(two.items)):
            return False
        if one.tag == _NUMBER:
            return _close(one.number, two.number, self._slack(place))
        pair = one, two, place
        if pair not in self._compared:
            self._compared[pair] = self._same_items(one, two, place)
        return self._compared[pair]

    def _slack(self, place: int) -> float:
        scale = max(self._places.largest.get(place, 0.0), self._least)
        return max(ULPS * math.ulp(scale), self._tolerance * scale)

    def _count(self) -> None:
        if next(self._steps) > MAX_STEPS:
            raise _TooManyStepsError

    def _same_items(self, one: _Value, two: _Value, place: int) -> bool:
        """Matches items: in their order, which is that of rounded values where they have none; else each item of a
        collection without order with one of its own that fits."""
        places = [self._places.below(place, one, number) for number in range(len(one.items))]
        if all(map(self._same_parts, one.items, two.items, places)):
            return True
        if one.tag not in _WIDTHS or not 1 < len(one.items) <= MAX_UNORDERED:
            return False
        fitting = [
            [n for n, other in enumerate(two.items) if self._same_parts(item, other, inner)]
            for item, inner in zip(one.items, places, strict=True)
        ]
        owners: dict[int, int] = {}
        return all(self._assign(item, fitting, owners, set()) for item in range(len(fitting)))

    def _same_parts(self, one: tuple[_Value, ...], two: tuple[_Value, ...], places: Sequence[int]) -> bool:
        return all(map(self.same, one, two, places))

    def _assign(self, item: int, fitting: list[list[int]], owners: dict[int, int], tried: set[int]) -> bool:
        """Finds an augmenting path: gives the item one that fits, whose owner so far may have to take another."""
        for candidate in fitting[item]:
            self._count()
            if candidate not in tried:
                tried.add(candidate)
                if candidate not in owners or self._assign(owners[candidate], fitting, owners, tried):
                    owners[candidate] = item
                    return True
        return False


def _close(reference: float, other: float, slack: float) -> bool:
    if isinstance(reference, int):
        return reference == other
    if reference != reference or other != other:
        return reference != reference and other != other
    try:
        return reference == other or abs(reference - other) <= slack
    except OverflowError:  # an integer beyond all floats
        return False
