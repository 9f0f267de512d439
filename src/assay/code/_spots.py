"""Syntax nodes where an operator may act, with their context.

Left out are docstrings, annotations, type aliases, `__all__`, the inside of f-strings (its positions are unreliable
before Python 3.12) and everything under `if TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from .source import AnyFunction, Program, Span, children

_SKIPPED_FIELDS = {"annotation", "returns", "type_params", "type_comment"}


class Replacement(NamedTuple):
    """New text for a span."""

    span: Span
    text: str


class Spot(NamedTuple):
    """A node with its context."""

    node: ast.AST
    parent: ast.AST
    field: str
    """Field of the parent that holds the node."""
    function: str
    """Qualified name of the containing function; empty at module or class level."""
    names: tuple[str, ...]
    """Local names of that function, parameters first, in order of appearance."""


def spots(program: Program, *, statements: bool = False) -> Iterator[Spot]:
    """Yields every spot, or those that are `statements`; a parent first, and fields in the order of the grammar."""
    root = Spot(program.tree, program.tree, "", "", ())
    yield from _below(root, "", statements=statements)


def _below(spot: Spot, prefix: str, *, statements: bool) -> Iterator[Spot]:
    docstring = _docstring(spot.node)
    for field, child in children(spot.node):
        is_left_out = statements and isinstance(child, ast.expr)
        if is_left_out or field in _SKIPPED_FIELDS or child is docstring or _ignored(child):
            continue
        inner, inner_prefix = Spot(child, spot.node, field, spot.function, spot.names), prefix
        if isinstance(child, AnyFunction):
            name = prefix + child.name
            inner, inner_prefix = inner._replace(function=name, names=_local_names(child)), f"{name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inner_prefix = f"{prefix}{child.name}."
        yield inner
        yield from _below(inner, inner_prefix, statements=statements)


def _docstring(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Module | ast.ClassDef | AnyFunction) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return first
    return None


def _ignored(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return type(node).__name__ == "TypeAlias"


def _local_names(node: AnyFunction) -> tuple[str, ...]:
    given = node.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [a.arg for a in (given.vararg, given.kwarg) if a is not None]
    outer: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names.append(inner.id)
        elif isinstance(inner, ast.Global | ast.Nonlocal):
            outer.update(inner.names)
    return tuple(n for n in dict.fromkeys(names) if n not in outer and n not in ("self", "cls"))


def operator_span(program: Program, left: ast.expr, right: ast.expr) -> Span | None:
    """Returns the span of the operator between two operands, without space, brackets and comments."""
    start, end = program.span(left).end, program.span(right).start
    text, at, found = program.text, start, []
    while at < end:
        if text[at] == "#":
            at = next((i for i in range(at, end) if text[i] in "\r\n"), end)
        elif text[at] not in "()\\" and not text[at].isspace():
            found.append(at)
        at += 1
    return Span(found[0], found[-1] + 1) if found else None
