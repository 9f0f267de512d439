"""Checks comparisons in test files for values that are equal to anything, not only to the expected value.

`instrument` replaces comparisons in a test file's syntax tree by calls of `compare`, `subtract` and `pair`. They
return the result of the plain comparison, unless a value from the code under test also equals (or is less than, or
contains) a fresh value that has nothing to do with the test: then the test fails and the supervisor is informed.

Covered: `==`, `in`, orderings, subtraction inside a comparison, and the equality methods of `unittest`; values inside
lists, tuples, dictionaries and sets. Not covered: chained comparisons, comparisons made by the code under test itself.
"""

from __future__ import annotations

import ast
import math
import operator
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

NAME = "@probes"
MODULE = "_assay_probes"
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_METHODS = {
    "assertEqual": "==",
    "assertListEqual": "==",
    "assertTupleEqual": "==",
    "assertDictEqual": "==",
    "assertSetEqual": "==",
    "assertSequenceEqual": "==",
    "assertMultiLineEqual": "==",
    "assertCountEqual": "==",
    "assertAlmostEqual": "-",
    "assertIn": "in",
    "assertLess": "<",
    "assertLessEqual": "<=",
    "assertGreater": ">",
    "assertGreaterEqual": ">=",
}
_PLAIN = (int, float, complex, bool, str, bytes, bytearray, type(None), range, slice, type, types.FunctionType)
_SAFE = frozenset(_PLAIN)
MOST_LEAVES = 5000
_RANDOM = random.SystemRandom()


class _State:
    told: Callable[[str], None] = staticmethod(lambda _: None)


def install(told: Callable[[str], None]) -> None:
    """Makes the probes importable by instrumented tests; `told` receives each false comparison."""
    _State.told = staticmethod(told)
    module = types.ModuleType(MODULE)
    for function in (compare, subtract, pair):
        setattr(module, function.__name__, function)
    sys.modules[MODULE] = module


# The syntax tree


def instrument(tree: ast.Module) -> None:
    """Changes a test file's tree in place."""
    _Transformer().visit(tree)
    place = 0
    for place, node in enumerate(tree.body):
        is_docstring = place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
    line = tree.body[place].lineno if tree.body else 1
    node = ast.Import([ast.alias(MODULE, NAME)], lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)
    tree.body.insert(place, ast.fix_missing_locations(node))


def _call(function: str, arguments: list[ast.expr], like: ast.AST) -> ast.Call:
    target = ast.Attribute(ast.Name(NAME, ast.Load()), function, ast.Load())
    call = ast.copy_location(ast.Call(target, arguments, []), like)
    return ast.fix_missing_locations(call)


def _expected_of_all(node: ast.expr) -> bool:
    """Returns whether an operand is a test's own `ANY`."""
    return any(
        isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part).endswith("ANY") for part in ast.walk(node)
    )


class _Transformer(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        lenient = _expected_of_all(node)
        self.generic_visit(node)
        name = _OPERATORS.get(type(node.ops[0]))
        if len(node.ops) != 1 or name is None or lenient:
            return node
        for operand in (node.left, node.comparators[0]):
            _Differences().visit(operand)
        left = _difference(node.left)
        right = _difference(node.comparators[0])
        return _call("compare", [ast.Constant(name), left, right], node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        lenient = _expected_of_all(node)
        self.generic_visit(node)
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr not in _METHODS or len(node.args) < 2 or lenient:
            return node
        if any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
            return node
        probed = _call("pair", [ast.Constant(_METHODS[function.attr]), *node.args[:2]], node)
        node.args[:2] = [ast.copy_location(ast.Starred(probed, ast.Load()), node)]
        return node


def _difference(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return _call("subtract", [node.left, node.right], node)
    return node


class _Differences(ast.NodeTransformer):
    """Replaces subtractions below an operand."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _difference(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.args = [_difference(argument) for argument in node.args]
        return node


# At run time


def compare(name: str, left: Any, right: Any) -> Any:
    """Returns `left name right`; raises `AssertionError` if an operand gives that result for any value."""
    result = _APPLY[name](left, right)
    if name not in ("!=", "not in"):
        _check(name, left, right)
    return result


def subtract(left: Any, right: Any) -> Any:
    """Returns `left - right`; an equal difference for other operands is reported."""
    result = left - right
    _check("-", left, right)
    return result


def pair(name: str, left: Any, right: Any) -> tuple[Any, Any]:
    """Returns both operands, checked."""
    _check(name, left, right)
    return left, right


_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}


def _check(name: str, left: Any, right: Any) -> None:
    if type(left) in _SAFE and type(right) in _SAFE:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lies = any(_lies(name, leaf, left_side=True) for leaf in _leaves(left)) or any(
            _lies(name, leaf, left_side=False) for leaf in _leaves(right)
        )
        if name == "in" and not lies:
            lies = (
                type(right) not in _CONTAINERS
                and _truth(lambda: object() in right)
                and _truth(lambda: _word() in right)
            )
    if name == "==" and not lies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lies = _equals_near(left, right) or _equals_near(right, left)
    if lies:
        where = f"{type(left).__name__} {name} {type(right).__name__}"
        _State.told(where[:200])
        raise AssertionError(f"a value compares as true with anything: {where}")


def _equals_near(value: Any, expected: Any) -> bool:
    """Returns whether an instance of a subclass equals every value that is nearly the expected one: of its type, about
    its size, made of its parts. All are asked, because an honest class may take some of them for the same."""
    kind = type(expected)
    if type(value) is kind or not isinstance(value, kind) or kind not in (int, float, str, bytes, list, tuple):
        return False
    if kind in (int, float):
        near = [expected + 1, expected + 2, -expected - 5]
    elif kind is str:
        near = [expected + _word(), _word() + expected, expected[: len(expected) // 2] + _word()]
    elif kind is bytes:
        near = [expected + _word().encode(), _word().encode() + expected]
    else:
        near = [kind([*expected[:-1], _word()]), kind([_word(), *expected[1:]])]
    return all(_truth(partial(operator.eq, value, decoy)) for decoy in near)


_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})


def _leaves(value: Any, most: int = MOST_LEAVES) -> Iterator[Any]:
    """Yields the values inside plain containers that are not plain containers themselves."""
    todo, seen = [value], 0
    while todo and seen < most:
        seen += 1
        part = todo.pop()
        kind = type(part)
        if kind in _SAFE:
            continue
        if kind in _CONTAINERS:
            todo.extend(part)
            if kind is dict:
                todo.extend(part.values())
        else:
            yield part


def _truth(question: Callable[[], Any]) -> bool:
    try:
        return bool(question())
    except Exception:  # noqa: BLE001  # an honest value may refuse to be compared
        return False


def _word() -> str:
    return f"w{_RANDOM.getrandbits(64):x}"


def _decoys() -> list[Any]:
    number = _RANDOM.getrandbits(60) + (1 << 60)
    word = _word()
    return [object(), number, -number, number + 0.5, word, word.encode(), [number], (word,), {word: number}, {number}]


def _lies(name: str, leaf: Any, *, left_side: bool) -> bool:
    if name in ("==", "in"):
        return any(_truth(partial(operator.eq, *((leaf, d) if left_side else (d, leaf)))) for d in _decoys())
    if name == "-":
        return _constant_difference(leaf) or _lies("==", leaf, left_side=left_side)
    low, high = (-math.inf, math.inf) if name in ("<", "<=") else (math.inf, -math.inf)
    apply = _APPLY[name[0]]
    if left_side:
        return _truth(lambda: apply(leaf, low))
    return _truth(lambda: apply(high, leaf))


def _constant_difference(leaf: Any) -> bool:
    one, other = _RANDOM.getrandbits(40), -_RANDOM.getrandbits(40) - 1

    def same(left: Any, right: Any) -> Any:
        plain = type(left) in (int, float) and type(right) in (int, float)
        return plain and left == right and math.isfinite(left)

    return _truth(lambda: same(leaf - one, leaf - other)) or _truth(lambda: same(one - leaf, other - leaf))
