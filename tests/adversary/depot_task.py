"""A repair task over a small package with classes, iterators, callbacks and changes in place, and its separation plan.

Every test is judged from outside; the functions that tests compare with are the package's own, and in the judge.
"""

from __future__ import annotations

from assay.verify.separation_plan import Argument, EntryPoint, EntryUse, RecordedClass, SeparationPlan, TestPlan

__all__ = [
    "BROKEN_BODIES",
    "DEPOT_IDS",
    "DEPOT_PLAN",
    "DEPOT_TESTS",
    "ENTRIES",
    "HELPERS",
    "RIGHT_BODIES",
    "write_depot",
]

_COMPARE = '''"""Comparisons that tests use."""


def labels(boxes):
    """The labels in order."""
    return [box.label for box in boxes]


def same_boxes(left, right):
    """Whether labels and contents are the same, in any order."""
    return sorted((b.label, sorted(b.items)) for b in left) == sorted((b.label, sorted(b.items)) for b in right)
'''
_STOCK = '''"""Boxes of a depot."""

from functools import cached_property


class BoxError(LookupError):
    """No such box."""


class Box:
    """A label and items."""

    def __init__(self, label, items=()):
        self.label = label
        self.items = list(items)

    @cached_property
    def count(self):
        """How many items there are."""
        return len(self.items)

    def holds(self, item):
        """Whether an item is inside."""
        return item in self.items

    def __len__(self):
        return len(self.items)


def pack(items, limit):
    """Boxes of at most `limit` items, labelled by number."""
    BODY_pack


def unpack(boxes):
    """The items of all boxes, one by one."""
    BODY_unpack


def rename(box, label):
    """Gives a box another label, in place."""
    BODY_rename


def sort_boxes(boxes, key):
    """Boxes by a function of the caller's."""
    BODY_sort_boxes


def find(boxes, label):
    """The box of that label; `BoxError` where there is none."""
    BODY_find


def weights(boxes, table):
    """Label to the sum of the items' weights in a table."""
    BODY_weights


def visit(boxes, function):
    """Calls a function with each box's label and number of items."""
    BODY_visit
'''
BROKEN_BODIES = {
    "pack": "return [Box('1', items)]",
    "unpack": "for box in boxes:\n        yield box.label",
    "rename": "return Box(label, box.items)",
    "sort_boxes": "return list(boxes)",
    "find": "return boxes[0]",
    "weights": "return {}",
    "visit": "return None",
}
RIGHT_BODIES = {
    "pack": "return [Box(str(n // limit + 1), items[n : n + limit]) for n in range(0, len(items), limit)]",
    "unpack": "for box in boxes:\n        yield from box.items",
    "rename": "box.label = label",
    "sort_boxes": "return sorted(boxes, key=key)",
    "find": (
        "for box in boxes:\n        if box.label == label:\n            return box\n"
        "    raise BoxError(f'no box {label}')"
    ),
    "weights": "return {box.label: sum(table[item] for item in box.items) for box in boxes}",
    "visit": "for box in boxes:\n        function(box.label, len(box.items))",
}
DEPOT_TESTS = """import pytest

import depot
from depot import Box


def test_pack():
    boxes = depot.pack(["a", "b", "c", "d", "e"], 2)
    assert depot.labels(boxes) == ["1", "2", "3"]
    assert [box.count for box in boxes] == [2, 2, 1] and boxes[2].holds("e")
    assert depot.same_boxes(boxes, [Box("3", "e"), Box("1", "ab"), Box("2", "dc")])


def test_unpack():
    assert list(depot.unpack([Box("1", "ab"), Box("2", "c")])) == ["a", "b", "c"]


def test_rename():
    box = Box("1", "ab")
    items = box.items
    depot.rename(box, "one")
    assert box.label == "one" and box.items is items and items == ["a", "b"]


def test_sort_boxes():
    asked = []
    boxes = [Box("long", "abc"), Box("short", "a")]
    ordered = depot.sort_boxes(boxes, lambda box: asked.append(box.label) or len(box.items))
    assert depot.labels(ordered) == ["short", "long"] and sorted(asked) == ["long", "short"]


def test_find():
    boxes = [Box("1", "a"), Box("2", "bcd")]
    assert depot.find(boxes, "2").items == ["b", "c", "d"]
    with pytest.raises(depot.BoxError, match="no box 7"):
        depot.find(boxes, "7")


def test_weights():
    assert depot.weights([Box("x", "ab"), Box("y", "a")], {"a": 1.5, "b": 2}) == {"x": 3.5, "y": 1.5}


def test_visit():
    seen = []

    def see(label, count):
        assert count == {"x": 37, "y": 12}[label]
        seen.append(label)

    depot.visit([Box("x", "a" * 37), Box("y", "b" * 12)], see)
    assert seen == ["x", "y"]
"""
ENTRIES = tuple(BROKEN_BODIES)
HELPERS = ("Box.__init__", "Box.count", "Box.holds", "Box.__len__", "labels", "same_boxes")
"""Functions that run in the judge, for the lying edits."""
DEPOT_IDS = tuple(f"tests/test_depot.py::test_{name}" for name in ENTRIES)


_BOX = "depot.stock:Box"
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pack": (("list",), (_BOX,)),
    "unpack": (("generator", "iterator", "str"), ()),
    "rename": (("NoneType",), ()),
    "sort_boxes": (("list",), (_BOX,)),
    "find": ((_BOX,), ()),
    "weights": (("dict",), ()),
    "visit": (("NoneType",), ()),
}
"""Kinds of the answers, and of what they hold."""


def _use(name: str) -> EntryUse:
    changes = (Argument("box", ("label",)),) if name == "rename" else ()
    return EntryUse(f"depot.stock:{name}", changes, *_KINDS[name])


DEPOT_PLAN = SeparationPlan(
    package="depot",
    entries=tuple(EntryPoint("depot.stock", name) for name in ENTRIES),
    tests=tuple(TestPlan(one, "splice", (), (_use(name),)) for one, name in zip(DEPOT_IDS, ENTRIES, strict=True)),
    classes=(RecordedClass("depot.stock", "Box", ("items", "label")), RecordedClass("depot.stock", "BoxError")),
    call_timeout_s=4.0,
)


def write_depot(**bodies: str) -> dict[str, str]:
    """Returns the package's files by path; bodies that are not handed in are broken."""
    stock = _STOCK
    for name, body in {**BROKEN_BODIES, **bodies}.items():
        stock = stock.replace(f"BODY_{name}\n", f"{body}\n")
    return {
        "depot/__init__.py": '"""A depot."""\n\nfrom .compare import labels, same_boxes\nfrom .stock import *\n',
        "depot/compare.py": _COMPARE,
        "depot/stock.py": stock,
    }
