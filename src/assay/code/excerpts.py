"""Excerpts of modules: the top-level statements that contain given functions, and their dependencies in the module.

Meant for readers who follow one call. Pure. `missing_names` tells whether an excerpt is complete.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from .source import parse_tree

Statement = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Excerpt(NamedTuple):
    """A part of one module."""

    lines: tuple[tuple[int, str], ...]
    """Line numbers and texts, in order."""
    nodes: tuple[ast.stmt, ...]


def excerpt_module(text: str, functions: Collection[int]) -> Excerpt:
    """Returns the top-level statements that hold functions, and the other statements that bind names which these use.

    Functions are given by first lines, of a decorator or of `def`. Docstrings are left out: examples may hold answers.

    Raises:
        SourceError: The text is not a Python program.
    """
    body = parse_tree(text).body
    chosen = [node for node in body if any(_first(node) <= line <= _last(node) for line in functions)]
    chosen += [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    while True:
        used = _used(chosen)
        more = [node for node in body if node not in chosen and _binds(node) & used]
        if not more:
            break
        chosen += more
    listed, nodes = text.splitlines(), sorted(chosen, key=_first)
    hidden = {n for node in nodes for n in _docstring_lines(node)}
    lines = [(n, listed[n - 1]) for node in nodes for n in range(_first(node), _last(node) + 1) if n not in hidden]
    return Excerpt(tuple(lines), tuple(nodes))


def missing_names(excerpts: Mapping[str, Excerpt], own: Iterable[str]) -> frozenset[str]:
    """Returns names that the excerpts use and do not bind, without builtins.

    A name imported from the package itself, under one of its `own` names, is bound only where another excerpt defines
    it.
    """
    nodes = [node for excerpt in excerpts.values() for node in excerpt.nodes]
    inside = set(own)
    imported: dict[str, str] = {}
    bound = set(dir(builtins)) | {"__name__", "__file__"}
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom):
                if inner.level > 0 or (inner.module or "").partition(".")[0] in inside:
                    imported.update({alias.asname or alias.name: alias.name for alias in inner.names})
                else:
                    bound |= {alias.asname or alias.name for alias in inner.names}
        bound |= _bound_inside(node)
    return frozenset(name for name in _used(nodes) if imported.get(name, name) not in bound)


def _first(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Statement) else []
    return min([node.lineno, *[one.lineno for one in decorators]])


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _docstring_lines(node: ast.stmt) -> set[int]:
    found: set[int] = set()
    for inner in ast.walk(node):
        if isinstance(inner, Statement) and ast.get_docstring(inner) is not None and len(inner.body) > 1:
            text = inner.body[0]
            if text.lineno > inner.lineno and inner.body[1].lineno > _last(text):
                found |= set(range(text.lineno, _last(text) + 1))
    return found


class _Names(ast.NodeVisitor):
    """Collects the names that are read, without annotations."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        """Leaves out the annotation."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)


def _used(nodes: Iterable[ast.AST]) -> set[str]:
    names = _Names()
    for node in nodes:
        names.visit(node)
    return names.read


def _binds(node: ast.stmt) -> set[str]:
    if isinstance(node, Statement):
        return {node.name}
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, ast.alias):
            found.add((inner.asname or inner.name).partition(".")[0])
        elif isinstance(inner, Statement):
            found.add(inner.name)
    return found


def _bound_inside(node: ast.AST) -> set[str]:
    """Returns the names that a statement binds anywhere inside, without imports of the form `from x import y`."""
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store | ast.Del):
            names.add(inner.id)
        elif isinstance(inner, ast.arg):
            names.add(inner.arg)
        elif isinstance(inner, Statement):
            names.add(inner.name)
        elif isinstance(inner, ast.ExceptHandler):
            names.add(inner.name or "")
        elif isinstance(inner, ast.Import):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in inner.names}
    return names
