"""Operators for measuring verifiers, beyond the alphabet that tasks are broken and repaired with.

They are kept apart because synthesis draws from that alphabet: one more operator in it would make other tasks.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from ._spots import Replacement, Spot
from .source import AnyFunction, Program, Span

Found = Iterator[Replacement]
_NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?![\w.]*\w)")


def condition_fixed(spot: Spot, program: Program) -> Found:
    """A condition becomes `True`, or `False`; one that is a literal already stays."""
    branch = spot.field == "test" and isinstance(spot.parent, ast.If | ast.IfExp)
    if isinstance(spot.node, ast.expr) and branch and not isinstance(spot.node, ast.Constant):
        yield Replacement(program.span(spot.node), "True")
        yield Replacement(program.span(spot.node), "False")


def float_shifted(spot: Spot, program: Program) -> Found:
    """A floating-point literal is doubled, or becomes 1.0 where it is zero."""
    node = spot.node
    if isinstance(node, ast.Constant) and type(node.value) is float and math.isfinite(node.value * 2):
        yield Replacement(program.span(node), repr(node.value * 2) if node.value else "1.0")


def text_changed(spot: Spot, program: Program) -> Found:
    """A string literal loses its last character and gets `_` in its place; a single one is doubled."""
    node = spot.node
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value and spot.field != "type":
        new = node.value * 2 if len(node.value) == 1 else node.value[:-1] + "_"
        yield Replacement(program.span(node), repr(new))


def number_in_text_shifted(spot: Spot, program: Program) -> Found:
    """The first number in a string literal is raised by one."""
    node = spot.node
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or spot.field == "type":
        return
    number = _NUMBER.search(node.value)
    if number is not None:
        new = f"{node.value[: number.start()]}{int(number[0]) + 1}{node.value[number.end() :]}"
        yield Replacement(program.span(node), repr(new))


def loop_skipped(spot: Spot, program: Program) -> Found:
    """A `for` runs over nothing."""
    plain = isinstance(spot.parent, ast.For) or (
        isinstance(spot.parent, ast.comprehension) and not spot.parent.is_async
    )
    if spot.field == "iter" and plain and isinstance(spot.node, ast.expr):
        yield Replacement(program.span(spot.node), "()")


def raise_removed(spot: Spot, program: Program) -> Found:
    """A `raise` becomes `pass`."""
    if isinstance(spot.node, ast.Raise) and spot.function:
        yield Replacement(program.span(spot.node), "pass")


def else_removed(spot: Spot, program: Program) -> Found:
    """The statements of an `else` become `pass`; an `elif` stays."""
    node = spot.node
    if not isinstance(node, ast.If | ast.For | ast.While | ast.Try) or not node.orelse:
        return
    first, last = node.orelse[0], node.orelse[-1]
    start, end = program.span(first).start, program.span(last).end
    if getattr(first, "decorator_list", None) or program.text.startswith("elif", start):
        return
    if not (isinstance(first, ast.Pass) and first is last):
        yield Replacement(Span(start, end), "pass")


def decorator_removed(spot: Spot, program: Program) -> Found:
    """A decorator is left out."""
    if spot.field == "decorator_list" and isinstance(spot.parent, AnyFunction | ast.ClassDef):
        assert isinstance(spot.node, ast.expr)
        lines = program.whole_lines(spot.node.lineno, spot.node.end_lineno or spot.node.lineno)
        yield Replacement(lines, "")
