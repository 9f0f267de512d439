"""Reads a test's text: does one comparison call the same functions on both of its sides?"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection

from assay.code.source import parse_tree


def compares_calls(text: str, names: Collection[str], lines: Collection[int]) -> bool:
    """Returns True where a comparison on one of the lines calls functions of these names (last parts) on both sides."""
    try:
        comparisons = _comparisons(text)
    except (SyntaxError, ValueError, RecursionError):
        return True
    for node in comparisons:
        if not set(range(node.lineno, (node.end_lineno or 0) + 1)) & set(lines):
            continue
        sides = [_calls_any(side, names) for side in (node.left, *node.comparators)]
        if sum(sides) > 1:
            return True
    return False


@functools.lru_cache(maxsize=32)
def _comparisons(text: str) -> tuple[ast.Compare, ...]:
    """Returns all comparisons of a text; many tests of one file are looked at, one after another."""
    return tuple(node for node in ast.walk(parse_tree(text)) if isinstance(node, ast.Compare))


def _calls_any(side: ast.expr, names: Collection[str]) -> bool:
    for node in ast.walk(side):
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
        if isinstance(node, ast.Name) and node.id in names:
            return True
    return False
