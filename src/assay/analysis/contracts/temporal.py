"""Temporal operators: each computes a column of truth values from the columns of its operands.

Three-valued Kleene logic: 0 false, 1 unknown, 2 true; `and` is the minimum, `or` the maximum, `not t` is `2 - t`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

Truth = int
FALSE: Final = 0
UNKNOWN: Final = 1
TRUE: Final = 2


def _beyond(*, weak: bool, ended: bool) -> Truth:
    return (TRUE if weak else FALSE) if ended else UNKNOWN


def _fold_back(rows: Sequence[tuple[Truth, ...]], last: Truth, join: Callable[..., Truth]) -> list[Truth]:
    found = [FALSE] * len(rows)
    for at in range(len(rows) - 1, -1, -1):
        last = found[at] = join(last, *rows[at])
    return found


def _fold_on(rows: Sequence[tuple[Truth, ...]], first: Truth, join: Callable[..., Truth]) -> list[Truth]:
    found = []
    for row in rows:
        first = join(first, *row)
        found.append(first)
    return found


def _ahead(join: Callable[..., Truth], *, weak: bool) -> Callable[..., list[Truth]]:
    def column(*parts: list[Truth], ended: bool) -> list[Truth]:
        return _fold_back(list(zip(*parts, strict=True)), _beyond(weak=weak, ended=ended), join)

    return column


def _shifted(*, weak: bool) -> Callable[..., list[Truth]]:
    def column(part: list[Truth], *, ended: bool) -> list[Truth]:
        return [*part[1:], _beyond(weak=weak, ended=ended)] if part else []

    return column


AHEAD: Final[dict[str, Callable[..., list[Truth]]]] = {
    "always": _ahead(min, weak=True),
    "eventually": _ahead(max, weak=False),
    "until": _ahead(lambda later, p, q: max(q, min(p, later)), weak=False),
    "unless": _ahead(lambda later, p, q: max(q, min(p, later)), weak=True),
    "before": _ahead(lambda later, p, q: min(2 - q, max(p, later)), weak=True),
    "next": _shifted(weak=False),
    "weak_next": _shifted(weak=True),
}
BACK: Final[dict[str, Callable[..., list[Truth]]]] = {
    "once": lambda p: _fold_on([(t,) for t in p], FALSE, max),
    "historically": lambda p: _fold_on([(t,) for t in p], TRUE, min),
    "since": lambda p, q: _fold_on(list(zip(p, q, strict=True)), FALSE, lambda before, a, b: max(b, min(a, before))),
    "earlier": lambda p: [FALSE, *_fold_on([(t,) for t in p], FALSE, max)][: len(p)],
    "previous": lambda p: [FALSE, *p][: len(p)],
}


def _greatest(part: Sequence[Truth], steps: int) -> list[Truth]:
    """Returns the maximum over each step and the `steps` before it."""
    found, last = [], {TRUE: -steps - 1, UNKNOWN: -steps - 1}
    for at, truth in enumerate(part):
        last[truth] = at
        found.append(TRUE if at - last[TRUE] <= steps else UNKNOWN if at - last[UNKNOWN] <= steps else FALSE)
    return found


def _within(part: list[Truth], steps: int, *, ended: bool) -> list[Truth]:
    found = _greatest(part[::-1], steps)[::-1]
    if not ended:
        open_from = max(len(part) - steps, 0)
        found[open_from:] = [max(truth, UNKNOWN) for truth in found[open_from:]]
    return found


def _throughout(part: list[Truth], steps: int, *, ended: bool) -> list[Truth]:
    return [2 - truth for truth in _within([2 - truth for truth in part], steps, ended=ended)]


BOUNDED_COLUMNS: Final[dict[str, Callable[..., list[Truth]]]] = {
    "within": _within,
    "throughout": _throughout,
    "within_last": lambda part, steps, **_: _greatest(part, steps),
}
