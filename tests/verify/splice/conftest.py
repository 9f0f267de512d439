"""A small package with a repair task and a separation plan, judged in real sandboxes."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay.verify
from assay.verify.separation_plan import Argument, EntryPoint, EntryUse, RecordedClass, SeparationPlan, TestPlan
from assay.verify.separation_plan import encode_plan as encoded
from tests.verify.conftest import Bench, Outcome

PROGRAMS = Path(assay.verify.__file__).parent / "payload"
PROGRAM_NAMES = (
    *("plain_values", "splice_codec", "splice_decoder", "splice_changes", "splice_kinds"),
    *("splice_client", "splice_worker"),
)
PACKAGE = {
    "shop/__init__.py": '"""A shop."""\nfrom shop.core import *\n',
    "shop/core.py": '''
from functools import cached_property

__all__ = ["Basket", "ShopError", "total", "lines", "discounted", "sort_by", "refill", "ordered", "missing"]


class ShopError(ValueError):
    pass


class Basket:
    def __init__(self, items=()):
        self.items = list(items)
        self.notes = {}

    @cached_property
    def names(self):
        return [name for name, _ in self.items]

    def __len__(self):
        return len(self.items)


def total(items):
    """The sum of the amounts."""
    return 0


def lines(basket):
    """Texts, one by one."""
    yield ""


def discounted(basket, percent):
    """A new basket."""
    return Basket()


def sort_by(items, key):
    """Sorted by a function of the caller's."""
    return []


def refill(basket, item):
    """Adds an item in place."""


def ordered(*names, reverse=False):
    return []


def missing(name):
    return name
''',
}
RIGHT = {
    "total": "return sum(amount for _, amount in items)",
    "lines": "for name, amount in basket.items:\n        yield f'{name}: {amount}'",
    "discounted": "return Basket([(n, a * (100 - percent) // 100) for n, a in basket.items])",
    "sort_by": "return sorted(items, key=key)",
    "refill": "basket.items.append(item)",
    "ordered": "return sorted(names, reverse=reverse)",
    "missing": "raise ShopError('no ' + name)",
}
TESTS = """
import pytest
import shop


def test_total():
    assert shop.total([("a", 3), ("b", 4)]) == 7


def test_lines():
    assert list(shop.lines(shop.Basket([("a", 3), ("b", 4)]))) == ["a: 3", "b: 4"]


def test_discounted():
    basket = shop.Basket([("a", 100)])
    cheaper = shop.discounted(basket, 25)
    assert type(cheaper) is shop.Basket
    assert cheaper.items == [("a", 75)] and cheaper.names == ["a"] and len(cheaper) == 1
    assert basket.items == [("a", 100)]


def test_sort_by():
    calls = []
    assert shop.sort_by([3, -1, 2], lambda n: calls.append(n) or abs(n)) == [-1, 2, 3]
    assert sorted(calls) == [-1, 2, 3]


def test_refill():
    basket = shop.Basket([("a", 1)])
    kept = basket.items
    shop.refill(basket, ("b", 2))
    assert basket.items == [("a", 1), ("b", 2)] and kept is basket.items


@pytest.mark.parametrize("reverse", [True, False])
def test_ordered(reverse):
    assert shop.ordered("a", "c", "b", reverse=reverse) == (["c", "b", "a"] if reverse else ["a", "b", "c"])


def test_missing():
    with pytest.raises(shop.ShopError, match="no pears"):
        shop.missing("pears")
"""
FILE = "tests/test_shop.py"
NAMES = [*RIGHT]
IDS = {name: [f"{FILE}::test_{name}"] for name in NAMES} | {
    "ordered": [f"{FILE}::test_ordered[True]", f"{FILE}::test_ordered[False]"]
}


def plan_of(**changes: Any) -> SeparationPlan:
    uses = {name: (EntryUse(f"shop.core:{name}"),) for name in NAMES}
    uses["refill"] = (EntryUse("shop.core:refill", (Argument("basket", ("items",)),)),)
    plan = SeparationPlan(
        package="shop",
        entries=tuple(EntryPoint("shop.core", name) for name in NAMES),
        tests=tuple(TestPlan(one, "splice", (), uses[name]) for name in NAMES for one in IDS[name]),
        classes=(RecordedClass("shop.core", "Basket", ("items", "notes")), RecordedClass("shop.core", "ShopError")),
        call_timeout_s=4.0,
    )
    return msgspec.structs.replace(plan, **changes)


def solution(**other: str) -> str:
    """A command that writes the package with right bodies, but for those that are given."""
    text = PACKAGE["shop/core.py"]
    for name, body in {**RIGHT, **other}.items():
        at = text.index("\ndef " + name + "(")
        end = text.find("\n\n\ndef ", at + 1)
        head = text[at + 1 : text.index("\n", at + 1)]
        text = text[: at + 1] + f"{head}\n    {body}" + (text[end:] if end > 0 else "\n")
    return "cat > shop/core.py <<'PYTHON'" + text + "PYTHON\n"


class Shop:
    """Judges what a command leaves of the shop."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        bench.given = {f"workspace/{name}": text for name, text in PACKAGE.items()}

    async def judge(
        self, command: str, plan: SeparationPlan | None = None, *, tests: str = TESTS, **parameters: Any
    ) -> Outcome:
        plan = plan or plan_of()
        self.bench.files = {FILE: tests, "tests/separation.json": encoded(plan).decode()}
        names = [one for listed in IDS.values() for one in listed]
        defaults: dict[str, Any] = {"tests": [FILE], "expected": names, "timeout_s": 60.0}
        return await self.bench.judge(command, "pytest", **{**defaults, **parameters})


@pytest.fixture
def shop(bench: Bench) -> Shop:
    return Shop(bench)


@pytest.fixture(scope="module")
def programs() -> Iterator[Any]:
    sys.path.insert(0, str(PROGRAMS))
    try:
        yield types.SimpleNamespace(**{name: __import__(name) for name in PROGRAM_NAMES})
    finally:
        sys.path.remove(str(PROGRAMS))
