"""Finds local names of a function that can be renamed safely, with all their occurrences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .source import AnyFunction, has_docstring

READS_NAMES = re.compile(
    r"\b(?:locals|vars|eval|exec|dir|globals|_getframe|f_locals|currentframe|getsource|co_varnames|__code__|inspect|"
    r"numba|njit|numexpr|breakpoint)\b"
)
"""A file that contains one of these words may inspect its own names."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef,
           ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def renamable(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[ast.Name]]:
    """Maps local variables to their name nodes in the function and in nested scopes.

    Left out: parameters; names bound otherwise than by assignment (imports, handlers, patterns, functions, classes),
    declared global or nonlocal, or bound again by anything nested; names in f-strings, whose places are unreliable
    before Python 3.12; names that a string literal holds as a word; names with two leading underscores.
    """
    body = function.body[1:] if has_docstring(function) else function.body
    stored: set[str] = set()
    barred = {a.arg for a in _parameters(function.args)}
    for node in _own(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.add(node.id)
        else:
            barred |= set(_bound_otherwise(node))
    everything = [node for statement in body for node in ast.walk(statement)]
    for node in everything:
        if isinstance(node, _SCOPES):
            barred |= _bound_inside(node)
        elif isinstance(node, ast.JoinedStr):
            barred |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            barred |= set(re.findall(r"\w+", node.value))
    chosen = {name for name in stored - barred if not name.startswith("__") and name != "_"}
    places: dict[str, list[ast.Name]] = {}
    for node in everything:
        if isinstance(node, ast.Name) and node.id in chosen:
            places.setdefault(node.id, []).append(node)
    return places


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yields the nodes of the function's own scope; of a nested scope only its top node."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending.extend(ast.iter_child_nodes(node))


def _bound_otherwise(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, AnyFunction | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names


def _bound_inside(scope: ast.AST) -> set[str]:
    """Returns every name bound in nested scopes; a walrus in a comprehension binds outside of it."""
    found: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arguments):
            found |= {a.arg for a in _parameters(node)}
        elif node is not scope:
            found |= set(_bound_otherwise(node))
    return found


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    more = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
