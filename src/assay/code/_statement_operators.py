"""Operators on statements. Each yields the replacements that it offers for one spot, in a stable order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ._spots import Replacement, Spot
from .source import AnyFunction, Program, Span, has_docstring

Found = Iterator[Replacement]
_AUGMENTED: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-=", "="), ast.Sub: ("+=", "="), ast.Mult: ("/=", "="), ast.Div: ("*=", "="),
    ast.FloorDiv: ("/=",), ast.BitOr: ("&=", "="), ast.BitAnd: ("|=", "="), ast.BitXor: ("|=",),
}  # fmt: skip
_EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "ValueError": ("TypeError",), "TypeError": ("ValueError",), "KeyError": ("IndexError", "AttributeError"),
    "IndexError": ("KeyError",), "AttributeError": ("KeyError",), "StopIteration": ("RuntimeError",),
    "RuntimeError": ("StopIteration",),
}  # fmt: skip


def return_emptied(spot: Spot, program: Program) -> Found:
    """`return x` becomes `return None`."""
    if isinstance(spot.node, ast.Return) and spot.node.value is not None:
        value = spot.node.value
        if not (isinstance(value, ast.Constant) and value.value is None):
            start, end = program.span(spot.node)
            yield Replacement(Span(start, end), "return None")


def statement_removed(spot: Spot, program: Program) -> Found:
    """A call for its effect, an augmented assignment, or an assignment to an attribute or item is left out."""
    node = spot.node
    effect = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    inner = isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets)
    if isinstance(node, ast.stmt) and spot.function and (effect or inner or isinstance(node, ast.AugAssign)):
        yield _without(spot, program, node)


def guard_removed(spot: Spot, program: Program) -> Found:
    """`if ...: return` (or `raise`, `continue`, `break`) with nothing else in it is left out."""
    node = spot.node
    if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and spot.function:
        leaves = isinstance(node.body[0], ast.Return | ast.Raise | ast.Continue | ast.Break)
        if leaves and not program.text[program.span(node).start :].startswith("elif"):
            yield _without(spot, program, node)


def _without(spot: Spot, program: Program, node: ast.stmt) -> Replacement:
    """Whole lines go where the statement has them for itself and is not the only one of its block; else `pass`."""
    start, end = program.span(node)
    block = getattr(spot.parent, spot.field, ())
    lines = program.whole_lines(node.lineno, node.end_lineno or node.lineno)
    alone = not program.text[lines.start : start].strip() and not program.text[end : lines.end].split("#")[0].strip()
    docstring = isinstance(spot.parent, AnyFunction) and has_docstring(spot.parent)
    if alone and len(block) - docstring > 1:
        return Replacement(lines, "")
    return Replacement(Span(start, end), "pass")


def loop_exit_swapped(spot: Spot, program: Program) -> Found:
    """`break` and `continue`."""
    if isinstance(spot.node, ast.Break | ast.Continue):
        yield Replacement(program.span(spot.node), "continue" if isinstance(spot.node, ast.Break) else "break")


def augmentation_changed(spot: Spot, program: Program) -> Found:
    """`+=` becomes `-=` or `=`, `|=` becomes `&=`."""
    if isinstance(spot.node, ast.AugAssign):
        where = _between(program, spot.node.target, spot.node.value, "=")
        for new in _AUGMENTED.get(type(spot.node.op), ()) if where is not None else ():
            assert where is not None
            yield Replacement(where, new)


def augmentation_added(spot: Spot, program: Program) -> Found:
    """`x = y` becomes `x += y`: takes back the commonest `augmentation_changed`."""
    if isinstance(spot.node, ast.Assign) and len(spot.node.targets) == 1:
        target = spot.node.targets[0]
        where = _between(program, target, spot.node.value, "=")
        if where is not None and isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
            yield Replacement(where, "+=")


def _between(program: Program, left: ast.expr, right: ast.expr, ending: str) -> Span | None:
    from ._spots import operator_span

    where = operator_span(program, left, right)
    return where if where is not None and program.text[where.start : where.end].endswith(ending) else None


def exception_changed(spot: Spot, program: Program) -> Found:
    """Another type is raised or caught."""
    node = spot.node
    called = isinstance(spot.parent, ast.Call) and spot.field == "func"
    handled = isinstance(spot.parent, ast.ExceptHandler) and spot.field == "type"
    raised = isinstance(spot.parent, ast.Raise) and spot.field == "exc"
    if isinstance(node, ast.Name) and (called or handled or raised):
        for new in _EXCEPTIONS.get(node.id, ()):
            yield Replacement(program.span(node), new)


def body_removed(spot: Spot, program: Program) -> Found:
    """A function's body, its docstring kept, becomes `raise NotImplementedError`."""
    node = spot.node
    if not isinstance(node, AnyFunction):
        return
    body = node.body[1:] if has_docstring(node) else node.body
    if not body or node.body[0].lineno == node.lineno:
        return
    first = min([body[0].lineno, *(d.lineno for d in getattr(body[0], "decorator_list", ()))])
    lines = program.whole_lines(first, body[-1].end_lineno or first)
    indent = program.lines[first - 1][: len(program.lines[first - 1]) - len(program.lines[first - 1].lstrip())]
    start = program.span(body[0]).start if first == body[0].lineno else lines.start + len(indent)
    if program.text[lines.start : start].strip():
        return
    ending = "\r\n" if program.lines[first - 1].endswith("\r\n") else "\n"
    yield Replacement(lines, f"{indent}raise NotImplementedError{ending}")
