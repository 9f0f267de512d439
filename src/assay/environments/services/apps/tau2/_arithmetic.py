"""The tool `calculate`: arithmetic as Python does it, without executing text."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from assay.environments.services.transaction import ActionError

_ALLOWED: Final = frozenset("0123456789+-*/(). ")
_MOST_CHARACTERS: Final = 1_000
_MOST_BITS: Final = 10_000
"""Size of a power, beyond which it is refused."""
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def calculate_expression(expression: str, wrong_characters: str) -> str:
    """Returns the value of an expression, rounded to two digits.

    Args:
        expression: Numbers, `+ - * /`, parentheses and spaces.
        wrong_characters: Message for other characters.

    Raises:
        ActionError: It is not an expression, or has no value.
    """
    if not set(expression) <= _ALLOWED:
        raise ActionError(wrong_characters)
    if len(expression) > _MOST_CHARACTERS:
        raise ActionError("The expression is too long.")
    try:
        return str(round(float(_value(ast.parse(expression.strip(), mode="eval").body)), 2))
    except (SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as exc:
        raise ActionError(str(exc)) from exc


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand)
        return value if isinstance(node.op, ast.UAdd) else -value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        return _BINARY[type(node.op)](left, right)
    raise ValueError("the expression is not arithmetic")


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > _MOST_BITS:
        raise ValueError("the power is too large")
    return base**exponent
