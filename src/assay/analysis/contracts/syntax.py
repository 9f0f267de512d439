"""What an expression of a contract is once it was read: a tree of plain nodes. See `reader` for the text.

Invariant: a node is data. Nothing here, nor anything made from it, is ever handed to Python to be run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = ["BOUNDED", "COMPARISONS", "FORMULAS", "FUTURE", "PAST", "STRICT_PAST", "VALUES", "Node", "walk"]


class Node(NamedTuple):
    """One operator with what it is applied to."""

    op: str
    parts: tuple[Node, ...] = ()
    value: Any = None
    """Of a literal its value, of a path its keys, of a bounded operator its number of steps, of `matches` its
    `Pattern`."""
    at: int = 0
    """Position in the text, from 0."""


COMPARISONS: Final = frozenset(
    {"==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "starts_with", "ends_with", "matches"}
)
FUTURE: Final = {"always": 1, "eventually": 1, "next": 1, "weak_next": 1, "until": 2, "unless": 2, "before": 2}
"""Operators that look ahead from a step, and how many formulas each takes."""
PAST: Final = {"once": 1, "historically": 1, "since": 2}
"""Operators that look back, the step itself included."""
STRICT_PAST: Final = {"earlier": 1, "previous": 1}
"""Operators that look back at the steps before alone."""
BOUNDED: Final = {"within": 1, "throughout": 1, "within_last": 1}
"""Operators that take a number of steps first."""
FORMULAS: Final = frozenset(
    {"and", "or", "not", "implies", "truth", "known", "missing", *COMPARISONS, *FUTURE, *PAST, *STRICT_PAST, *BOUNDED}
)
"""Nodes that are true, false or unknown at a step; all others are values."""
VALUES: Final = {"len": 1, "lower": 1, "count": 1, "sum": 2, "latest": 2}
"""Functions that give a value, and how many arguments each takes."""


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    todo = [node]
    while todo:
        found = todo.pop()
        yield found
        todo.extend(found.parts)
