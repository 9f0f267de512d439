"""Compares two versions of a program file by function."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .source import AnyFunction, SourceError, first_line, parse_tree, split_lines


class ChangedFunction(NamedTuple):
    """A function at the top level of a module or of a class, as in the first version."""

    name: str
    """Qualified within the module."""
    line: int
    """Line of the first decorator, or of `def`."""

    @property
    def last_name(self) -> str:
        """Returns the name without its class."""
        return self.name.rpartition(".")[2].partition("#")[0]


class FunctionChanges(NamedTuple):
    """Differences between two versions."""

    functions: tuple[ChangedFunction, ...]
    """Changed or removed functions."""
    outside: bool
    """Something outside function bodies differs: a signature, a decorator, a class, a constant, a new function."""


@functools.lru_cache(maxsize=64)
def compare_functions(first: str, second: str) -> FunctionChanges:
    """Compares two programs by their syntax; comments and layout do not count. Raises `SourceError`."""
    try:
        one, two = parse_tree(first), parse_tree(second)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise SourceError(f"cannot be parsed: {exc}") from exc
    before, after = dict(_top_functions(one)), dict(_top_functions(two))
    lines, other_lines = split_lines(first), split_lines(second)
    changed = [
        ChangedFunction(name, first_line(node))
        for name, node in before.items()
        if name not in after
        or (
            # Comparing text is cheaper than dumping the trees.
            _text(node, lines) != _text(after[name], other_lines) and ast.dump(node) != ast.dump(after[name])
        )
    ]
    return FunctionChanges(tuple(changed), ast.dump(_Skeleton().visit(one)) != ast.dump(_Skeleton().visit(two)))


def _text(node: AnyFunction, lines: Sequence[str]) -> Sequence[str]:
    return lines[first_line(node) - 1 : node.end_lineno]


def _top_functions(tree: ast.Module) -> Iterator[tuple[str, AnyFunction]]:
    """Yields functions with their qualified names; of two with one name (a property and its setter) both."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    seen: dict[str, int] = {}
    while pending:
        node, prefix = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, AnyFunction):
                name = prefix + child.name
                seen[name] = seen.get(name, 0) + 1
                yield name if seen[name] == 1 else f"{name}#{seen[name]}", child
            elif isinstance(child, ast.ClassDef):
                pending.append((child, f"{prefix}{child.name}."))
            elif not isinstance(child, ast.expr):
                pending.append((child, prefix))


class _Skeleton(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [ast.Pass()]
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = [ast.Pass()]
        return node
