"""Syntax tree of contract expressions; `reader` defines the text.

Invariant: a node is data; nothing derived from it is executed by Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple


class Node(NamedTuple):
    """An operator and its operands."""

    op: str
    parts: tuple[Node, ...] = ()
    value: Any = None
    """Value of a literal, keys of a path, number of steps of a bounded operator, `Pattern` of `matches`."""
    at: int = 0
    """Position in the text, from 0."""


COMPARISONS: Final = frozenset(
    {"==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "starts_with", "ends_with", "matches"}
)
FUTURE: Final = {"always": 1, "eventually": 1, "next": 1, "weak_next": 1, "until": 2, "unless": 2, "before": 2}
"""Operators over future steps, and the number of their formulas."""
PAST: Final = {"once": 1, "historically": 1, "since": 2}
"""Operators over past steps, including the current one."""
STRICT_PAST: Final = {"earlier": 1, "previous": 1}
"""Operators over strictly earlier steps."""
BOUNDED: Final = {"within": 1, "throughout": 1, "within_last": 1}
"""Operators whose first argument is a number of steps."""
FORMULAS: Final = frozenset(
    {"and", "or", "not", "implies", "truth", "known", "missing", *COMPARISONS, *FUTURE, *PAST, *STRICT_PAST, *BOUNDED}
)
"""Nodes that are true, false or unknown at a step; all others are values."""
VALUES: Final = {"len": 1, "lower": 1, "count": 1, "sum": 2, "latest": 2}
"""Functions with a value, and the number of their arguments."""


def walk(node: Node) -> Iterator[Node]:
    """Yields the node and all its descendants."""
    todo = [node]
    while todo:
        found = todo.pop()
        yield found
        todo.extend(found.parts)
