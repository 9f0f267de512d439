"""Operators on expressions. Each yields the replacements that it offers for one spot, in a stable order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ._spots import Replacement, Spot, operator_span
from .source import Program, Span

Found = Iterator[Replacement]
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">", ast.Gt: "<", ast.LtE: ">=", ast.GtE: "<=",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_BOUNDARIES: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
# Symmetric: if a turns into b, then b turns into a, so that each change can be taken back.
_ARITHMETIC: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/", "**"), ast.Div: ("*", "//"), ast.FloorDiv: ("/", "%"),
    ast.Mod: ("//",), ast.Pow: ("*",), ast.BitAnd: ("|",), ast.BitOr: ("&", "^"), ast.BitXor: ("|",),
    ast.LShift: (">>",), ast.RShift: ("<<",),
}  # fmt: skip
_CALL_PAIRS = (
    ("min", "max"), ("any", "all"), ("append", "appendleft"), ("pop", "popleft"), ("startswith", "endswith"),
    ("lstrip", "rstrip"), ("floor", "ceil"), ("union", "intersection"), ("add", "discard"), ("keys", "values"),
    ("successors", "predecessors"), ("in_degree", "out_degree"), ("in_edges", "out_edges"), ("_succ", "_pred"),
    ("succ", "pred"), ("lower", "upper"), ("bisect_left", "bisect_right"), ("takewhile", "dropwhile"), ("set", "list"),
    ("extend", "append"), ("first", "last"), ("issubset", "issuperset"), ("partition", "rpartition"),
    ("index", "rindex"), ("heappush", "heappop"), ("isdisjoint", "issubset"), ("sorted", "list"),
)  # fmt: skip
_CALLS: dict[str, list[str]] = {}
for _one, _two in _CALL_PAIRS:
    _CALLS.setdefault(_one, []).append(_two)
    _CALLS.setdefault(_two, []).append(_one)
MAX_ALTERNATIVES = 6


def comparison_swapped(spot: Spot, program: Program) -> Found:
    """`==` and `!=`, `<` and `>`, `in` and `not in`, `is` and `is not`."""
    yield from _comparisons(spot, program, _COMPARISONS)


def comparison_boundary(spot: Spot, program: Program) -> Found:
    """`<` and `<=`, `>` and `>=`."""
    yield from _comparisons(spot, program, _BOUNDARIES)


def _comparisons(spot: Spot, program: Program, table: dict[type[ast.cmpop], str]) -> Found:
    if isinstance(spot.node, ast.Compare):
        operands = [spot.node.left, *spot.node.comparators]
        for index, operator in enumerate(spot.node.ops):
            where = operator_span(program, operands[index], operands[index + 1])
            if where is not None and type(operator) in table:
                yield Replacement(where, table[type(operator)])


def boolean_swapped(spot: Spot, program: Program) -> Found:
    """`and` and `or`."""
    if isinstance(spot.node, ast.BoolOp):
        new = "or" if isinstance(spot.node.op, ast.And) else "and"
        for left, right in zip(spot.node.values, spot.node.values[1:], strict=False):
            where = operator_span(program, left, right)
            if where is not None:
                yield Replacement(where, new)


def arithmetic_swapped(spot: Spot, program: Program) -> Found:
    """`+` and `-`, `*` and `/`, `//` and `%`, `&` and `|`, shifts."""
    if isinstance(spot.node, ast.BinOp) and not _is_text(spot.node.left):
        where = operator_span(program, spot.node.left, spot.node.right)
        for new in _ARITHMETIC.get(type(spot.node.op), ()) if where is not None else ():
            assert where is not None
            yield Replacement(where, new)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def sign_removed(spot: Spot, program: Program) -> Found:
    """`-x` becomes `x`."""
    if isinstance(spot.node, ast.UnaryOp) and isinstance(spot.node.op, ast.USub):
        yield Replacement(program.span(spot.node), program.source(spot.node.operand))


def sign_added(spot: Spot, program: Program) -> Found:
    """`x` becomes `-x`: takes back `sign_removed`."""
    simple = isinstance(spot.node, ast.Constant) and type(spot.node.value) in (int, float)
    if simple or (isinstance(spot.node, ast.Name) and isinstance(spot.node.ctx, ast.Load) and spot.field != "func"):
        assert isinstance(spot.node, ast.expr)
        yield Replacement(program.span(spot.node), "-" + program.source(spot.node))


def constant_shifted(spot: Spot, program: Program) -> Found:
    """An integer literal plus or minus one."""
    if isinstance(spot.node, ast.Constant) and type(spot.node.value) is int and abs(spot.node.value) < 10**6:
        for new in (spot.node.value + 1, spot.node.value - 1):
            if new >= 0 or not isinstance(spot.parent, ast.UnaryOp):
                yield Replacement(program.span(spot.node), str(new))


def condition_negated(spot: Spot, program: Program) -> Found:
    """A condition, or an operand of `and` and `or`, becomes `not (...)`."""
    node = spot.node
    condition = spot.field == "test" and isinstance(spot.parent, ast.If | ast.While | ast.IfExp)
    part = spot.field == "values" and isinstance(spot.parent, ast.BoolOp)
    keeps = spot.field == "ifs"
    truth = spot.field == "value" and isinstance(spot.parent, ast.Return) and _is_truth(node)
    if isinstance(node, ast.expr) and (condition or part or keeps or truth):
        yield Replacement(program.span(node), f"not ({program.source(node)})")


def _is_truth(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("any", "all", "isinstance", "bool", "callable", "hasattr", "issubclass")
    return isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.Constant) and node.value in (True, False)
    )


def negation_removed(spot: Spot, program: Program) -> Found:
    """`not x` becomes `x`."""
    if isinstance(spot.node, ast.UnaryOp) and isinstance(spot.node.op, ast.Not):
        start, end = program.span(spot.node)
        rest = program.text[start + len("not") : end].lstrip(" \t")
        yield Replacement(Span(start, end), rest)


def arguments_swapped(spot: Spot, program: Program) -> Found:
    """Two neighbouring positional arguments change places."""
    if isinstance(spot.node, ast.Call):
        for one, two in zip(spot.node.args, spot.node.args[1:], strict=False):
            if not isinstance(one, ast.Starred) and not isinstance(two, ast.Starred):
                yield from _exchange(program, one, two)


def pair_swapped(spot: Spot, program: Program) -> Found:
    """`a, b` becomes `b, a`."""
    if isinstance(spot.node, ast.Tuple) and len(spot.node.elts) == 2 and spot.field not in ("slice", "type"):
        yield from _exchange(program, *spot.node.elts)


def _exchange(program: Program, one: ast.expr, two: ast.expr) -> Found:
    first, second = program.span(one), program.span(two)
    between = program.text[first.end : second.start]
    if program.source(one) != program.source(two) and first.end <= second.start:
        yield Replacement(Span(first.start, second.end), program.source(two) + between + program.source(one))


def keyword_dropped(spot: Spot, program: Program) -> Found:
    """A keyword argument is left out, so that the default holds."""
    if isinstance(spot.node, ast.keyword) and spot.node.arg is not None and isinstance(spot.parent, ast.Call):
        call, where = spot.parent, program.span(spot.node)
        before = [program.span(a).end for a in call.args] + [program.span(k).end for k in call.keywords]
        previous = max((end for end in before if end <= where.start), default=None)
        if previous is not None:
            yield Replacement(Span(previous, where.end), "")
        elif len(call.keywords) == 1:
            yield Replacement(where, "")


def default_changed(spot: Spot, program: Program) -> Found:
    """A parameter's default: another number, the other truth value, another None."""
    if spot.field in ("defaults", "kw_defaults") and isinstance(spot.parent, ast.arguments):
        if isinstance(spot.node, ast.Constant) and spot.node.value is None:
            yield Replacement(program.span(spot.node), "0")
        elif isinstance(spot.node, ast.Constant) and type(spot.node.value) is int and spot.node.value == 0:
            yield Replacement(program.span(spot.node), "None")


def flag_flipped(spot: Spot, program: Program) -> Found:
    """`True` and `False`."""
    if isinstance(spot.node, ast.Constant) and isinstance(spot.node.value, bool):
        yield Replacement(program.span(spot.node), str(not spot.node.value))


def literal_emptied(spot: Spot, program: Program) -> Found:
    """A string becomes the empty string; a filled list, set, dict or tuple display becomes an empty one."""
    node = spot.node
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value and spot.field != "keys":
        yield Replacement(program.span(node), '""')
    elif isinstance(node, ast.List) and node.elts and isinstance(node.ctx, ast.Load):
        yield Replacement(program.span(node), "[]")
    elif isinstance(node, ast.Dict) and node.keys:
        yield Replacement(program.span(node), "{}")


def end_index_swapped(spot: Spot, program: Program) -> Found:
    """`x[0]` and `x[-1]`."""
    if isinstance(spot.parent, ast.Subscript) and spot.field == "slice" and isinstance(spot.node, ast.expr):
        written = program.source(spot.node)
        if written in ("0", "-1"):
            yield Replacement(program.span(spot.node), "-1" if written == "0" else "0")


def bound_removed(spot: Spot, program: Program) -> Found:
    """A bound of a slice is left out."""
    if isinstance(spot.parent, ast.Slice) and spot.field in ("lower", "upper") and isinstance(spot.node, ast.expr):
        yield Replacement(program.span(spot.node), "")


def bound_added(spot: Spot, program: Program) -> Found:
    """An open slice gets the bound `1` below or `-1` above: takes back the commonest `bound_removed`."""
    if isinstance(spot.node, ast.Slice) and isinstance(spot.parent, ast.Subscript):
        start, end = program.span(spot.node)
        colon = program.text.find(":", program.span(spot.node.lower).end if spot.node.lower else start, end)
        if colon >= 0 and spot.node.lower is None:
            yield Replacement(Span(colon, colon), "1")
        if colon >= 0 and spot.node.upper is None:
            yield Replacement(Span(colon + 1, colon + 1), "-1")


def call_swapped(spot: Spot, program: Program) -> Found:
    """A callable is exchanged for its counterpart: `min` and `max`, `any` and `all`, `pop` and `popleft`."""
    node = spot.node
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and spot.field == "func":
        for new in _CALLS.get(node.id, ()):
            yield Replacement(program.span(node), new)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        end = program.span(node).end
        for new in _CALLS.get(node.attr, ()):
            yield Replacement(Span(end - len(node.attr), end), new)


def ternary_swapped(spot: Spot, program: Program) -> Found:
    """`a if c else b` becomes `b if c else a`."""
    if isinstance(spot.node, ast.IfExp):
        first, last = program.span(spot.node.body), program.span(spot.node.orelse)
        between = program.text[first.end : last.start]
        new = program.text[last.start : last.end] + between + program.text[first.start : first.end]
        if not isinstance(spot.node.orelse, ast.IfExp | ast.Lambda):
            yield Replacement(Span(first.start, last.end), new)


def filter_removed(spot: Spot, program: Program) -> Found:
    """A comprehension's `if` is left out."""
    if spot.field == "ifs" and isinstance(spot.parent, ast.comprehension) and isinstance(spot.node, ast.expr):
        start, end = program.span(spot.node)
        opening = program.text.rfind("if", program.span(spot.parent.iter).end, start)
        if opening >= 0 and not program.text[opening + 2 : start].strip():
            yield Replacement(Span(len(program.text[:opening].rstrip()), end), "")


def variable_replaced(spot: Spot, program: Program) -> Found:
    """A local variable is exchanged for another one of the same function."""
    node = spot.node
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in spot.names and spot.field != "func":
        at = spot.names.index(node.id)
        near = sorted((n for n in spot.names if n != node.id), key=lambda n: abs(spot.names.index(n) - at))
        for new in near[:MAX_ALTERNATIVES]:
            yield Replacement(program.span(node), new)
