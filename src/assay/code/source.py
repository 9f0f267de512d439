"""Program text as spans: positions of syntax nodes, functions, and equivalence of two texts.

Used to change one place of a file and preserve every other character. It never runs the text. Invariant: every span is
a pair of character offsets into the given text.
"""

from __future__ import annotations

import ast
import functools
import re
import threading
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from types import CodeType
from typing import NamedTuple

MAX_SOURCE_CHARS = 2_000_000
"""Longer texts are refused: the parser's memory grows by a factor of several hundred."""
MAX_CACHED_CHARS = 200_000
"""Longest text whose functions are kept in memory with it."""
_PARSING = threading.Lock()
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.Assert)
_OPERATORS_AND_CONTEXTS = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
_STATEMENT_FIELDS = {"body", "orelse", "finalbody", "handlers", "cases"}
AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


class SourceError(ValueError):
    """The text is not a Python program that can be processed."""


class Span(NamedTuple):
    """Character offsets, end exclusive."""

    start: int
    end: int


class FunctionInfo(NamedTuple):
    """A function of a file. Lines count from 1 and are inclusive."""

    name: str
    """Qualified within the module, as in `Class.method` or `outer.<locals>.inner`."""
    line: int
    """Line of the first decorator, or of `def`."""
    def_line: int
    body_line: int
    """Line of the first statement after the docstring."""
    end_line: int
    statements: int
    complexity: int
    """Cyclomatic complexity (McCabe): one plus the number of branch points."""
    documented: bool


class Program:
    """A parsed text with the means to find a node's characters."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text = text
        self.tree = tree
        self.lines = split_lines(text)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Returns the character offset of a line (from 1) and a column in UTF-8 bytes, as `ast` counts."""
        if line > len(self.lines):
            return len(self.text)
        content = self.lines[line - 1]
        if content.isascii():
            return self._starts[line - 1] + column
        return self._starts[line - 1] + len(content.encode()[:column].decode(errors="replace"))

    def span(self, node: ast.expr | ast.stmt | ast.ExceptHandler | ast.keyword | ast.arg) -> Span:
        end_line = node.end_lineno if node.end_lineno is not None else node.lineno
        end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return Span(self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column))

    def source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def line_of(self, offset: int) -> int:
        """Returns the line (from 1) of a character offset."""
        return min(max(bisect_right(self._starts, offset), 1), max(len(self.lines), 1))

    def whole_lines(self, first: int, last: int) -> Span:
        """Returns the span of whole lines with their line ends."""
        return Span(self._starts[first - 1], self._starts[min(last, len(self.lines))])


def split_lines(text: str) -> list[str]:
    """Returns the lines of a program with their line ends, as `ast` counts them."""
    return _LINE.findall(text)


def parse_tree(text: str | bytes) -> ast.Module:
    """Calls `ast.parse` under a lock: early releases of Python 3.11 count the depth of all threads together."""
    with _PARSING:
        try:
            return ast.parse(text)
        except SystemError:  # a library parsed something in another thread meanwhile
            return ast.parse(text)


def parse(text: str) -> Program:
    """Parses a program. Raises `SourceError` if it is not Python, or too long or too deep."""
    if len(text) > MAX_SOURCE_CHARS:
        raise SourceError(f"the text has {len(text)} characters; at most {MAX_SOURCE_CHARS} are worked on")
    try:
        return Program(text, parse_tree(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise SourceError(f"not a Python program: {exc}") from exc


def functions(program: Program) -> tuple[FunctionInfo, ...]:
    """Returns every function of the file, with methods and nested functions, in text order."""
    return tuple(_functions(program.tree, ""))


def functions_of(text: str) -> tuple[FunctionInfo, ...]:
    """Parses a program and returns its functions, as `functions` does. Raises `SourceError`.

    Cached, because many candidates change the same file; longer texts than `MAX_CACHED_CHARS` are parsed every time.
    """
    found = _try_functions(text) if len(text) <= MAX_CACHED_CHARS else _try_functions.__wrapped__(text)
    if isinstance(found, str):
        raise SourceError(found)
    return found


@functools.lru_cache(maxsize=256)
def _try_functions(text: str) -> tuple[FunctionInfo, ...] | str:
    """Returns the functions of a program, or what is wrong with its text."""
    try:
        return functions(parse(text))
    except SourceError as exc:
        return str(exc)


def _functions(node: ast.AST, prefix: str) -> Iterator[FunctionInfo]:
    for field, child in children(node):
        if isinstance(child, AnyFunction):
            yield _describe(child, prefix + child.name)
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif field in _STATEMENT_FIELDS:
            yield from _functions(child, prefix)


def children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yields the syntax nodes directly below one with the fields that hold them, in the order of the grammar's fields,
    without operators and contexts (load, store, delete), which have no position in the text."""
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST) and not isinstance(item, _OPERATORS_AND_CONTEXTS):
                    yield field, item
        elif isinstance(value, ast.AST) and not isinstance(value, _OPERATORS_AND_CONTEXTS):
            yield field, value


def _describe(node: AnyFunction, name: str) -> FunctionInfo:
    documented = has_docstring(node)
    body = node.body[1:] if documented and len(node.body) > 1 else node.body
    statements = branches = 0
    pending: list[ast.AST] = [*body]
    while pending:
        inner = pending.pop()
        statements += isinstance(inner, ast.stmt)
        branches += len(inner.values) - 1 if isinstance(inner, ast.BoolOp) else isinstance(inner, _BRANCHES)
        pending += [child for _, child in children(inner)]
    return FunctionInfo(
        name=name,
        line=first_line(node),
        def_line=node.lineno,
        body_line=body[0].lineno,
        end_line=node.end_lineno or node.lineno,
        statements=statements,
        complexity=1 + branches,
        documented=documented,
    )


def first_line(node: AnyFunction) -> int:
    """Returns the line of the first decorator, or of the definition."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def has_docstring(node: AnyFunction | ast.ClassDef | ast.Module) -> bool:
    """Returns whether the first statement is a string."""
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def equivalent(before: str, after: str) -> bool:
    """Returns whether both texts compile to the same code, apart from positions and docstrings.

    Sound, not complete: True means that no run can tell them apart (but by reading line numbers or docstrings); two
    texts that behave alike can still differ here. Raises `SourceError` where one does not compile.
    """
    return _normal(_compile(before)) == _normal(_compile(after))


def require_compiles(text: str) -> None:
    """Raises `SourceError` for a text that is not a program of this Python version."""
    _compile(text)


def compiled_identity(text: str) -> Hashable:
    """Returns a key that two texts share if they are `equivalent` and assert the same. Raises `SourceError`."""
    asserted = tuple(ast.dump(node) for node in ast.walk(parse(text).tree) if isinstance(node, ast.Assert))
    return (_normal(_compile(text)), asserted)


def _compile(text: str) -> CodeType:
    try:
        tree = parse(text).tree
        with _PARSING:
            code: CodeType = compile(tree, "<text>", "exec", dont_inherit=True, optimize=2)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise SourceError(f"does not compile: {exc}") from exc
    return code


def _normal(code: CodeType) -> tuple[object, ...]:
    constants = tuple(_normal(c) if isinstance(c, CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts)
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_name)
    return (code.co_code, constants, shape, names)
