"""Mutation operators on the syntax tree that preserve every other character of the file.

Synthesis breaks working code with them, and `repair` applies the same alphabet backwards. Because both share the
alphabet, `repair`'s rate on such tasks is a self-check, not a score. Pure and deterministic. Tests decide whether a
change is noticeable; `source.equivalent` only finds changes that no test could notice.

An operator with an empty `undone_by` discards a statement or value that its result no longer shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from . import _expression_operators as expressions
from . import _statement_operators as statements
from . import _wider_operators as wider
from ._spots import Replacement, Spot, spots
from .source import Program, SourceError, parse


class Operator(NamedTuple):
    """A kind of change."""

    name: str
    description: str
    find: Callable[[Spot, Program], Iterator[Replacement]]
    undone_by: tuple[str, ...]
    """Operators of the repair alphabet that can restore the text, or a program equal to it."""
    on_statements: bool = False
    """It acts on statements alone."""


class Site(NamedTuple):
    """One possible change of one text: characters `start` to `end` become `text`."""

    operator: str
    line: int
    function: str
    """Qualified name of the containing function; empty at module or class level."""
    start: int
    end: int
    before: str
    text: str


def _operator(find: Callable[[Spot, Program], Iterator[Replacement]], *undone_by: str) -> Operator:
    name = find.__name__
    return Operator(name, " ".join((find.__doc__ or "").split()), find, undone_by)


_ALL = (
    _operator(expressions.comparison_swapped, "comparison_swapped"),
    _operator(expressions.comparison_boundary, "comparison_boundary"),
    _operator(expressions.boolean_swapped, "boolean_swapped"),
    _operator(expressions.arithmetic_swapped, "arithmetic_swapped"),
    _operator(expressions.sign_removed, "sign_added"),
    _operator(expressions.constant_shifted, "constant_shifted"),
    _operator(expressions.condition_negated, "negation_removed"),
    _operator(expressions.negation_removed, "condition_negated"),
    _operator(expressions.arguments_swapped, "arguments_swapped"),
    _operator(expressions.pair_swapped, "pair_swapped"),
    _operator(expressions.keyword_dropped),
    _operator(expressions.default_changed, "default_changed"),
    _operator(expressions.flag_flipped, "flag_flipped"),
    _operator(expressions.literal_emptied),
    _operator(expressions.end_index_swapped, "end_index_swapped"),
    _operator(expressions.bound_removed, "bound_added"),
    _operator(expressions.call_swapped, "call_swapped"),
    _operator(expressions.ternary_swapped, "ternary_swapped"),
    _operator(expressions.filter_removed),
    _operator(expressions.variable_replaced, "variable_replaced"),
    _operator(statements.return_emptied),
    _operator(statements.statement_removed),
    _operator(statements.guard_removed),
    _operator(statements.loop_exit_swapped, "loop_exit_swapped"),
    _operator(statements.augmentation_changed, "augmentation_changed", "augmentation_added"),
    _operator(statements.exception_changed, "exception_changed"),
)
OPERATORS: dict[str, Operator] = {o.name: o for o in _ALL}
"""Every mutation operator, by name."""
FEATURE = _operator(statements.body_removed)._replace(on_statements=True)
"""Removes a function's body and keeps its docstring, which makes a feature task."""
WIDER: dict[str, Operator] = {
    o.name: o
    for o in (
        _operator(wider.condition_fixed),
        _operator(wider.float_shifted),
        _operator(wider.text_changed),
        _operator(wider.number_in_text_shifted),
        _operator(wider.loop_skipped),
        _operator(wider.raise_removed),
        _operator(wider.else_removed),
        _operator(wider.decorator_removed),
    )
}
"""Further operators for measuring verifiers; neither synthesis nor `repair` uses them."""
_UNDOING = (
    *(o for o in _ALL if any(o.name in other.undone_by for other in _ALL)),
    _operator(expressions.sign_added, "sign_removed"),
    _operator(expressions.bound_added),
    _operator(statements.augmentation_added),
)


def find_sites(text: str, operators: Collection[str] | None = None) -> tuple[Site, ...]:
    """Returns every site of the named operators (default: all of `OPERATORS`), in text order. Raises `SourceError` for
    text that is not Python, `KeyError` for an unknown operator."""
    if operators is None:
        return _all_sites(text)
    known = OPERATORS | WIDER | {FEATURE.name: FEATURE}
    return _find(_parse_last(text), [known[name] for name in sorted(operators)], None)


_parse_last = functools.lru_cache(maxsize=1)(parse)


@functools.lru_cache(maxsize=128)
def _all_sites(text: str) -> tuple[Site, ...]:
    """Returns the sites of all of `OPERATORS`: the mutants of one text are drawn many times."""
    return _find(_parse_last(text), _ALL, None)


def repair_candidates(text: str, lines: Collection[int] | None = None) -> tuple[Site, ...]:
    """Returns the repair alphabet's changes that start on one of `lines` (default: anywhere). Raises `SourceError`."""
    return _find(parse(text), _UNDOING, lines)


def _find(program: Program, chosen: Sequence[Operator], lines: Collection[int] | None) -> tuple[Site, ...]:
    wanted = None if lines is None else frozenset(lines)
    sites: dict[tuple[int, int, str], Site] = {}
    for spot in spots(program, statements=all(operator.on_statements for operator in chosen)):
        if wanted is not None and not _on_lines(spot, wanted):
            continue
        for operator in chosen:
            for (start, end), new in operator.find(spot, program):
                line = program.line_of(start)
                if wanted is None or line in wanted:
                    before = program.text[start:end]
                    site = Site(operator.name, line, spot.function, start, end, before, new)
                    sites.setdefault((start, end, new), site)
    return tuple(sorted(sites.values(), key=lambda s: (s.start, s.end, s.operator, s.text)))


def _on_lines(spot: Spot, lines: frozenset[int]) -> bool:
    first = getattr(spot.node, "lineno", None)
    return first is None or any(n in lines for n in range(first, spot.node.end_lineno + 1))  # type: ignore[attr-defined]


def apply(text: str, site: Site) -> str:
    """Returns the text with one change. Raises `SourceError` for a site of another text."""
    return apply_all(text, (site,))


def apply_all(text: str, sites: Sequence[Site]) -> str:
    """Returns the text with several of its sites changed. Raises `SourceError` if some do not fit or overlap."""
    pieces, at = [], 0
    for site in sorted(sites, key=lambda s: (s.start, s.end)):
        if site.start < at:
            raise SourceError(f"changes overlap: {site.operator} on line {site.line} starts inside another one")
        if text[site.start : site.end] != site.before:
            raise SourceError(f"{site.operator} on line {site.line} belongs to another text")
        pieces += [text[at : site.start], site.text]
        at = site.end
    return "".join([*pieces, text[at:]])
