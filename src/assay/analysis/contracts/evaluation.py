"""Evaluates an expression at each step of a trace: true, false or unknown.

Three-valued Kleene logic: 0 false, 1 unknown, 2 true; `and` is the minimum, `or` the maximum. A temporal formula is a
column, one truth value per step; each operator is one pass over its parts' columns. After the last step of a finished
trace nothing happens: `eventually`, `until` and `next` are unfulfilled, `always`, `unless` and `weak_next` unviolated.
After the last step of an unfinished trace everything is unknown.

Statements about missing or incomparable values are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from .fields import MISSING, NOTHING, PENDING, value_at
from .pattern import Pattern
from .syntax import COMPARISONS, FUTURE, Node, walk
from .temporal import AHEAD, BACK, BOUNDED_COLUMNS, FALSE, TRUE, UNKNOWN, Truth

_ATOMS: Final = frozenset({"truth", "known", "missing", *COMPARISONS})
_AHEAD: Final = frozenset({*FUTURE, "within", "throughout"})
_TEXT: Final = 262_144
"""Characters of a text searched by a pattern."""
_LARGEST: Final = 1e300


class Trace(NamedTuple):
    """Trace of a run, step by step."""

    positions: Sequence[dict[str, Any]]
    """Roots of `fields.ROOTS` at each step."""
    ended: bool
    """True if the run is over."""


class _Range(NamedTuple):
    low: float
    high: float


class AtomCache:
    """Cache of atom values while a trace grows.

    Serves one set of formulas, which it keeps alive, and one trace, whose first `settled` positions are final.
    """

    def __init__(self) -> None:
        self.settled = 0
        self.columns: dict[int, tuple[Node, list[Truth]]] = {}
        self._ahead: dict[int, bool] = {}

    def looks_ahead(self, node: Node) -> bool:
        """Returns whether a node's value at a step depends on later ones."""
        found = self._ahead.get(id(node))
        if found is None:
            found = self._ahead[id(node)] = any(part.op in _AHEAD for part in walk(node))
        return found


def evaluate(node: Node, trace: Trace, cache: AtomCache | None = None) -> list[Truth]:
    """Returns the truth value of a formula at each step; with `cache`, settled steps are not evaluated again."""
    return _Evaluation(trace, cache).formula(node)


class _Evaluation:
    def __init__(self, trace: Trace, cache: AtomCache | None) -> None:
        self._trace = trace
        self._cache = cache
        self._size = len(trace.positions)
        self._known: dict[int, list[Truth]] = {}
        """Columns by the identity of their node: definitions are shared, and stay alive with the tree."""

    def formula(self, node: Node) -> list[Truth]:
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = self._column(node)
        return found

    def _column(self, node: Node) -> list[Truth]:
        if node.op in _ATOMS:
            return self._atoms(node)
        parts = [self.formula(part) for part in node.parts]
        if node.op in _BOOLEAN:
            return [_BOOLEAN[node.op](*row) for row in zip(*parts, strict=True)]
        if node.op in BOUNDED_COLUMNS:
            return BOUNDED_COLUMNS[node.op](parts[0], node.value, ended=self._trace.ended)
        if node.op in BACK:
            return BACK[node.op](*parts)
        return AHEAD[node.op](*parts, ended=self._trace.ended)

    def _atoms(self, node: Node) -> list[Truth]:
        cache = self._cache
        if cache is None or cache.looks_ahead(node):
            return self._atoms_from(node, 0)
        _, known = cache.columns.setdefault(id(node), (node, []))
        new = self._atoms_from(node, len(known))
        column = [*known, *new]
        known.extend(new[: max(0, cache.settled - len(known))])
        return column

    def _atoms_from(self, node: Node, start: int) -> list[Truth]:
        """Returns the values of a node without temporal operators from step `start` on."""
        if node.op == "truth":
            return [_truth(value) for value in self._values(node.parts[0], start)]
        if node.op in ("known", "missing"):
            wanted = node.op == "known"
            return [_presence(value, known=wanted) for value in self._values(node.parts[0], start)]
        if node.op == "matches":
            return [_matches(value, node.value) for value in self._values(node.parts[0], start)]
        left, right = (self._values(part, start) for part in node.parts)
        compare = _COMPARE[node.op]
        return [compare(a, b) for a, b in zip(left, right, strict=True)]

    def _values(self, node: Node, start: int = 0) -> list[Any]:
        if node.op == "literal":
            return [node.value] * (self._size - start)
        if node.op == "path":
            return [value_at(position, node.value) for position in self._trace.positions[start:]]
        if node.op == "count":
            return _counts(self.formula(node.parts[0]))[start:]
        if node.op == "sum":
            return _sums(self._values(node.parts[0]), self.formula(node.parts[1]))[start:]
        if node.op == "latest":
            return _latest(self._values(node.parts[0]), self.formula(node.parts[1]))[start:]
        parts = [self._values(part, start) for part in node.parts]
        if node.op == "list":
            return [_listed(row) for row in zip(*parts, strict=True)] if parts else [[]] * (self._size - start)
        return [_VALUE[node.op](*row) for row in zip(*parts, strict=True)]


def _absent(*values: Any) -> Any:
    """Returns the first of `PENDING`, `MISSING`, `NOTHING` among the values; else None."""
    return next((kind for kind in (PENDING, MISSING, NOTHING) if any(value is kind for value in values)), None)


def _of_absent(kind: Any) -> Truth:
    """Returns false for `NOTHING`, unknown for other absent values."""
    return FALSE if kind is NOTHING else UNKNOWN


def _listed(row: Sequence[Any]) -> Any:
    return _absent(*row) or list(row)


def _truth(value: Any) -> Truth:
    return (TRUE if value else FALSE) if isinstance(value, bool) else _of_absent(value)


def _presence(value: Any, *, known: bool) -> Truth:
    if value is PENDING:
        return UNKNOWN
    return TRUE if (_absent(value) is None) == known else FALSE


def _matches(value: Any, pattern: Pattern) -> Truth:
    if not isinstance(value, str):
        return _of_absent(value)
    found = pattern.search(value[:_TEXT])
    if found:
        return TRUE
    return UNKNOWN if len(value) > _TEXT else FALSE


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_range(value: Any) -> _Range | None:
    if isinstance(value, _Range):
        return value
    return _Range(value, value) if _is_number(value) else None


def _equal(left: Any, right: Any) -> Truth:
    if (absent := _absent(left, right)) is not None:
        return _of_absent(absent)
    if isinstance(left, _Range) or isinstance(right, _Range):
        a, b = _as_range(left), _as_range(right)
        if a is None or b is None:
            return FALSE
        if a.high < b.low or b.high < a.low:
            return FALSE
        return TRUE if a.low == a.high == b.low == b.high else UNKNOWN
    if isinstance(left, bool) != isinstance(right, bool):
        return FALSE
    return TRUE if left == right else FALSE


def _below(left: Any, right: Any, *, or_equal: bool) -> Truth:
    a, b = _as_range(left), _as_range(right)
    if a is not None and b is not None:
        surely = a.high <= b.low if or_equal else a.high < b.low
        possibly = a.low <= b.high if or_equal else a.low < b.high
        return TRUE if surely else UNKNOWN if possibly else FALSE
    if isinstance(left, str) and isinstance(right, str):
        return TRUE if (left <= right if or_equal else left < right) else FALSE
    return _of_absent(_absent(left, right))


def _contains(whole: Any, part: Any) -> Truth:
    if (absent := _absent(whole, part)) is not None:
        return _of_absent(absent)
    if isinstance(whole, str):
        return (TRUE if part in whole else FALSE) if isinstance(part, str) else UNKNOWN
    if isinstance(whole, list | tuple):
        return max((_equal(item, part) for item in whole), default=FALSE)
    if isinstance(whole, dict):
        return TRUE if part in whole else FALSE
    return UNKNOWN


def _affix(left: Any, right: Any, *, start: bool) -> Truth:
    if not isinstance(left, str) or not isinstance(right, str):
        return _of_absent(_absent(left, right))
    return TRUE if (left.startswith(right) if start else left.endswith(right)) else FALSE


_COMPARE: Final[dict[str, Callable[[Any, Any], Truth]]] = {
    "==": _equal,
    "!=": lambda a, b: 2 - _equal(a, b),
    "<": lambda a, b: _below(a, b, or_equal=False),
    "<=": lambda a, b: _below(a, b, or_equal=True),
    ">": lambda a, b: _below(b, a, or_equal=False),
    ">=": lambda a, b: _below(b, a, or_equal=True),
    "in": lambda a, b: _contains(b, a),
    "not in": lambda a, b: 2 - _contains(b, a),
    "contains": _contains,
    "starts_with": lambda a, b: _affix(a, b, start=True),
    "ends_with": lambda a, b: _affix(a, b, start=False),
}
_BOOLEAN: Final[dict[str, Callable[..., Truth]]] = {
    "and": min,
    "or": max,
    "not": lambda a: 2 - a,
    "implies": lambda a, b: max(2 - a, b),
}


def _arithmetic(operate: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if not _is_number(left) or not _is_number(right) or max(abs(left), abs(right)) > _LARGEST:
            return _absent(left, right) or MISSING
        try:
            found = operate(left, right)
        except (ZeroDivisionError, OverflowError):
            return MISSING
        return found if math.isfinite(found) else MISSING

    return apply


def _plus(left: Any, right: Any) -> Any:
    if isinstance(left, _Range) or isinstance(right, _Range):
        a, b = _as_range(left), _as_range(right)
        return MISSING if a is None or b is None else _Range(a.low + b.low, a.high + b.high)
    if isinstance(left, str) and isinstance(right, str):
        return (left + right)[:_TEXT]
    return _ADD(left, right)


_ADD: Final = _arithmetic(lambda a, b: a + b)
_SUBTRACT: Final = _arithmetic(lambda a, b: a - b)
_VALUE: Final[dict[str, Callable[..., Any]]] = {
    "+": _plus,
    "-": lambda a, b: (
        _plus(a, _Range(-b.high, -b.low))
        if isinstance(b, _Range)
        else (_plus(a, -b) if isinstance(a, _Range) and _is_number(b) else _SUBTRACT(a, b))
    ),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(lambda a, b: a / b),
    "%": _arithmetic(lambda a, b: a % b),
    "negative": lambda a: _Range(-a.high, -a.low) if isinstance(a, _Range) else _SUBTRACT(0, a),
    "len": lambda a: (
        len(a) if isinstance(a, str | list | tuple | dict) and not isinstance(a, _Range) else (_absent(a) or MISSING)
    ),
    "lower": lambda a: a.lower() if isinstance(a, str) else _absent(a) or MISSING,
}


def _counts(column: Sequence[Truth]) -> list[Any]:
    found: list[Any] = []
    low = high = 0
    for truth in column:
        low += truth == TRUE
        high += truth != FALSE
        found.append(low if low == high else _Range(low, high))
    return found


def _sums(values: Sequence[Any], where: Sequence[Truth]) -> list[Any]:
    found: list[Any] = []
    total: Any = 0
    for value, truth in zip(values, where, strict=True):
        if truth == TRUE:
            total = _ADD(total, value) if total is not MISSING else MISSING
        elif truth == UNKNOWN:
            total = MISSING
        found.append(MISSING if total is PENDING else total)
        total = MISSING if total is PENDING else total
    return found


def _latest(values: Sequence[Any], where: Sequence[Truth]) -> list[Any]:
    """Returns the latest known value before each step."""
    found: list[Any] = []
    last: Any = MISSING
    for value, truth in zip(values, where, strict=True):
        found.append(last)
        if truth == TRUE:
            last = value
        elif truth == UNKNOWN:
            last = MISSING
    return found
