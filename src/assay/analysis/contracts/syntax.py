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
MEANINGS: Final[dict[str, str]] = {
    "always(p)": "p at this step and every later one",
    "eventually(p)": "p at this step or some later one",
    "next(p)": "there is a next step, and p at it",
    "weak_next(p)": "p at the next step, if there is one",
    "until(p, q)": "q at this step or some later one, and p at every step before that",
    "unless(p, q)": "as `until`, or p at every step to the end",
    "before(p, q)": "no q at this step or later without a p, from this step on, at a step before it",
    "within(n, p)": "p at this step or one of the n after it",
    "throughout(n, p)": "p at this step and at each of the n after it",
    "once(p)": "p at this step or some earlier one",
    "historically(p)": "p at this step and every earlier one",
    "since(p, q)": "q at this step or some earlier one, and p at every step after that, this one included",
    "earlier(p)": "p at some step before this one",
    "previous(p)": "there is a step before this one, and p at it",
    "within_last(n, p)": "p at this step or one of the n before it",
    "count(p)": "at how many steps p was, this one included; a range where it is not known at some",
    "sum(v, p)": "the sum of v over the steps, this one included, at which p was; missing where it is not known",
    "latest(v, p)": "v at the newest step before this one at which p was",
    "known(v), missing(v)": "whether the record has a value there; the one thing that can be said of a missing one",
    "len(v), lower(v)": "the length of a text or list; a text in lower case",
}
"""The operators as they are written, and what each means at a step."""
VALUES: Final = {"len": 1, "lower": 1, "count": 1, "sum": 2, "latest": 2}
"""Functions with a value, and the number of their arguments."""


def walk(node: Node) -> Iterator[Node]:
    """Yields the node and all its descendants."""
    todo = [node]
    while todo:
        found = todo.pop()
        yield found
        todo.extend(found.parts)
