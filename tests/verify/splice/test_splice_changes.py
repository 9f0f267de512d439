"""What functions of a test, which a worker calls, may change of the judge's arguments."""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import types
import uuid
from typing import Any

import pytest


class Slotted:
    __slots__ = ("x",)

    def __init__(self) -> None:
        self.x = [1]


class Box:
    def __init__(self) -> None:
        self.items, self.total, self.slotted = [1, 2], 0.5, Slotted()

    @functools.cached_property
    def size(self) -> int:
        return len(self.items)


class Items(list[int]):
    def __iter__(self) -> Any:
        raise TypeError("own iter")


class Called(Box):
    def __call__(self) -> None: ...


USE: dict[str, Any] = {"changes": (), "answers": None, "inside": None, "handed": None}


def guard_of(programs: Any, named: dict[str, Any], changes: list[dict[str, Any]]) -> Any:
    moved = programs.splice_changes.MovedObjects()
    call = programs.splice_client._Call(types.SimpleNamespace(package="a", classes={}, calls=0, moved=moved), USE)
    call.named, call.permitted = named, programs.splice_changes.PermittedChanges(named, changes, moved)
    return programs.splice_changes.ArgumentGuard(call)


CHANGES = {
    "a list": lambda a: a["items"].append(9),
    "a field": lambda a: setattr(a["box"], "total", 1.5),
    "below a field": lambda a: a["box"].items.clear(),
    "a slot": lambda a: setattr(a["box"].slotted, "x", []),
    "below a slot": lambda a: a["box"].slotted.x.append(2),
    "a new field": lambda a: setattr(a["box"], "new", 1),
    "a list with its own iterator": lambda a: list.append(a["own"], 3),
    "the owner of a method": lambda a: a["method"](9),
    "an argument of a partial function": lambda a: a["partial"](9),
    "an object that can be called": lambda a: a["called"].items.clear(),
    "bytes": lambda a: a["bytes"].extend(b"x"),
    "a dictionary": lambda a: a["table"].update(b=2),
}


def arguments() -> dict[str, Any]:
    return {
        "items": [1, 2], "box": Box(), "own": Items([1, 2]), "method": [3].append, "called": Called(),
        "partial": functools.partial(list.append, [4]), "bytes": bytearray(b"a"), "table": {"a": 1},
    }  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_that_the_reference_does_not_make_is_refused(programs: Any, change: Any) -> None:
    given = arguments()
    guard = guard_of(programs, given, [])
    guard.require_unchanged()
    change(given)
    with pytest.raises(programs.splice_decoder.RefusedReply, match="made to change"):
        guard.require_unchanged()


@pytest.mark.parametrize(
    "change",
    [
        lambda a: setattr(a["box"], "total", float("0.5")),
        lambda a: a["box"].size,
        lambda a: a["box"].items.append(3),
        lambda a: setattr(a["box"], "items", []),
    ],
    ids=["the same number", "a cache", "in what may change", "what may change"],
)
def test_what_the_reference_changes_and_what_means_nothing_may_change(programs: Any, change: Any) -> None:
    given = {"box": Box()}
    guard = guard_of(programs, given, [{"name": "box", "path": ["items"]}])
    change(given)
    guard.require_unchanged()


def test_arguments_too_large_to_compare_are_refused(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.splice_changes, "MAX_COMPARED", 100)
    with pytest.raises(programs.splice_decoder.RefusedReply, match="too large"):
        guard_of(programs, {"items": list(range(200))}, [])


PLAIN = {
    "a decimal": ("Decimal", lambda: decimal.Decimal("1.50")),
    "a fraction": ("Fraction", lambda: fractions.Fraction(1, 3)),
    "a moment": ("datetime", lambda: datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)),
    "a number of 128 bits": ("UUID", lambda: uuid.UUID(int=5)),
    "a range": ("range", lambda: range(2, 9)),
    "a slice": ("slice", lambda: slice(None, 5)),
}


@pytest.mark.parametrize("make", [make for _, make in PLAIN.values()], ids=PLAIN)
def test_equal_values_sent_by_value_are_no_change(programs: Any, make: Any) -> None:
    same = programs.splice_changes._is_same
    assert make() is not make()
    assert same(make(), make())
    assert not any(same(make(), other()) for _, other in PLAIN.values() if other is not make)
    assert not same(decimal.Decimal("1.5"), decimal.Decimal("1.50"))
    assert not same(range(0), range(1, 1))


def texts() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = 1
    for _ in range(60):
        deep = [deep, deep]
    return {"loop": loop, "deep": deep, "long": [0] * 2_000_000, "pair": [[1], {"a": (2,)}] * 3}


@pytest.mark.parametrize("name", ["loop", "deep", "long", "pair"])
def test_the_text_of_an_exception_is_bounded(programs: Any, name: str) -> None:
    given = (texts()[name],)
    if name == "pair":
        programs.splice_changes.require_short_text((given, given))
        return
    with pytest.raises(programs.splice_decoder.RefusedReply, match="an exception with"):
        programs.splice_changes.require_short_text((given,))
