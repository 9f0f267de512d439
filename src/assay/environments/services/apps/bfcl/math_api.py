"""BFCL's `MathAPI`: arithmetic without a state.

Logarithms have as many digits as the original's, which computes them with mpmath, and are shown as it shows them. Not
covered: logarithms of numbers that are not positive, which are errors here, and
the last digits of those of numbers that differ from 1 by less than 1e-11.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any, Final, NoReturn

from .tool_class import ClassState, Number, ToolClass

_MOST_DIGITS: Final = 1_000
"""Largest precision of a result."""
_MOST_BITS: Final = 14_000
"""Largest integer: Python shows at most 4,300 digits."""
_BITS_PER_DIGIT: Final = 3.3219280948873626


class MathState(ClassState):
    """No attributes."""


arithmetic: Final = ToolClass("MathAPI", "bfclmath", "Mathematical operations.", MathState)
service: Final = arithmetic.service


class _Numeral:
    """A number that Python shows in a certain way."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _too_large() -> NoReturn:
    raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")


def _bounded(result: Any) -> dict[str, Any]:
    if isinstance(result, int) and result.bit_length() > _MOST_BITS:
        _too_large()
    return {"result": result}


@arithmetic.tool
def logarithm(_: MathState, value: Number, base: Number, precision: int) -> Any:
    """Computes a logarithm.

    Args:
        value: The number, which is positive.
        base: Base of the logarithm, which is positive.
        precision: Number of digits.
    """
    if precision > _MOST_DIGITS:
        return {"error": f"A precision above {_MOST_DIGITS} is not supported"}
    if value <= 0 or base <= 0:
        return {"error": "Logarithms are of positive numbers"}
    bits = max(1, round((precision + 1) * _BITS_PER_DIGIT))
    divisor = _rounded(_ln(base, bits), bits)
    if not divisor:
        return {"error": ""}  # as the original's division by zero
    quotient = _rounded(_rounded(_ln(value, bits), bits) / divisor, bits)
    digits = max(1, round(bits / _BITS_PER_DIGIT) - 1)
    return {"result": _Numeral(f"mpf('{_significant(quotient, 17 if digits == 15 else digits + 3)}')")}


def _ln(value: Number, bits: int) -> Fraction:
    """Returns the natural logarithm, with a few more bits than wanted."""
    with localcontext(Context(prec=int(bits / _BITS_PER_DIGIT) + 25)):
        return Fraction(Decimal(value).ln())


def _rounded(value: Fraction, bits: int) -> Fraction:
    """Returns the nearest number with a mantissa of so many bits; of two, the even one."""
    if not value:
        return value
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - bits + 1)
    return round(value / unit) * unit


def _significant(value: Fraction, digits: int) -> str:
    """Returns a number with so many significant digits, without zeros at the end."""
    if not value:
        return "0.0"
    with localcontext(Context(prec=digits, rounding=ROUND_HALF_UP)) as context:
        number = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    sign, figures, _ = number.as_tuple()
    text, exponent = "".join(map(str, figures)).ljust(digits, "0"), number.adjusted()
    split, suffix = 1, ""
    if min(-(digits // 3), -5) < exponent < digits:
        if exponent < 0:
            text = "0" * -exponent + text
        else:
            split = exponent + 1
    else:
        suffix = f"e{exponent:+}"
    shown = f"{text[:split]}.{text[split:]}".rstrip("0")
    return ("-" if sign else "") + (f"{shown}0" if shown.endswith(".") else shown) + suffix


@arithmetic.tool
def mean(_: MathState, numbers: list[Number]) -> Any:
    """Computes the mean of numbers.

    Args:
        numbers: The numbers.
    """
    if not numbers:
        return {"error": "Cannot calculate mean of an empty list"}
    return {"result": sum(numbers) / len(numbers)}


@arithmetic.tool
def standard_deviation(_: MathState, numbers: list[Number]) -> Any:
    """Computes the standard deviation of numbers, as of a whole population.

    Args:
        numbers: The numbers.
    """
    if not numbers:
        return {"error": "Cannot calculate standard deviation of an empty list"}
    middle = sum(numbers) / len(numbers)
    return {"result": math.sqrt(sum((x - middle) ** 2 for x in numbers) / len(numbers))}


_METRES: Final = {"km": 1000, "m": 1, "cm": 0.01, "mm": 0.001, "um": 1e-6, "nm": 1e-9}


@arithmetic.tool
def si_unit_conversion(_: MathState, value: Number, unit_in: str, unit_out: str) -> Any:
    """Converts a length between SI units.

    Args:
        value: The length.
        unit_in: Its unit: km, m, cm, mm, um or nm.
        unit_out: The wanted unit.
    """
    if unit_in not in _METRES or unit_out not in _METRES:
        return {"error": f"Conversion from '{unit_in}' to '{unit_out}' is not supported"}
    try:
        return _bounded(value * _METRES[unit_in] * (1 / _METRES[unit_out]))
    except OverflowError:
        return {"error": "Conversion resulted in a value too large to represent"}


_IMPERIAL: Final = {
    "cm_to_in": 0.393701,
    "in_to_cm": 2.54,
    "m_to_ft": 3.28084,
    "ft_to_m": 0.3048,
    "m_to_yd": 1.09361,
    "yd_to_m": 0.9144,
    "km_to_miles": 0.621371,
    "miles_to_km": 1.60934,
    "kg_to_lb": 2.20462,
    "lb_to_kg": 0.453592,
    "celsius_to_fahrenheit": 1.8,
    "fahrenheit_to_celsius": 5 / 9,
}


@arithmetic.tool
def imperial_si_conversion(_: MathState, value: Number, unit_in: str, unit_out: str) -> Any:
    """Converts a value between imperial and SI units.

    Args:
        value: The value.
        unit_in: Its unit, such as cm, in, m, ft, yd, km, miles, kg, lb, celsius or fahrenheit.
        unit_out: The wanted unit.
    """
    if unit_in == unit_out:
        return {"result": value}
    name = f"{unit_in}_to_{unit_out}"
    if name not in _IMPERIAL:
        return {"error": f"Conversion from '{unit_in}' to '{unit_out}' is not supported"}
    try:
        if name == "celsius_to_fahrenheit":
            return {"result": value * _IMPERIAL[name] + 32}
        return {"result": (value - 32 if name == "fahrenheit_to_celsius" else value) * _IMPERIAL[name]}
    except OverflowError:
        return {"error": "Conversion resulted in a value too large to represent"}


@arithmetic.tool
def add(_: MathState, a: Number, b: Number) -> Any:
    """Adds two numbers.

    Args:
        a: First number.
        b: Second number.
    """
    return _bounded(a + b)


@arithmetic.tool
def subtract(_: MathState, a: Number, b: Number) -> Any:
    """Subtracts one number from another.

    Args:
        a: Number from which it is subtracted.
        b: Number that is subtracted.
    """
    return _bounded(a - b)


@arithmetic.tool
def multiply(_: MathState, a: Number, b: Number) -> Any:
    """Multiplies two numbers.

    Args:
        a: First number.
        b: Second number.
    """
    return _bounded(a * b)


@arithmetic.tool
def divide(_: MathState, a: Number, b: Number) -> Any:
    """Divides one number by another.

    Args:
        a: Numerator.
        b: Denominator.
    """
    return {"error": "Cannot divide by zero"} if b == 0 else {"result": a / b}


@arithmetic.tool
def power(_: MathState, base: Number, exponent: Number) -> Any:
    """Raises a number to a power.

    Args:
        base: The number.
        exponent: The power.
    """
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > 2 * _MOST_BITS:
        if abs(base) > 1:
            _too_large()
        exponent %= 2  # of 0, 1 and -1
        exponent = exponent or 2
    return _bounded(base**exponent)


@arithmetic.tool
def square_root(_: MathState, number: Number, precision: int) -> Any:
    """Computes a square root.

    Args:
        number: The number, which is not negative.
        precision: Number of digits.
    """
    if number < 0:
        return {"error": "Cannot calculate square root of a negative number"}
    if precision > _MOST_DIGITS:
        return {"error": f"A precision above {_MOST_DIGITS} is not supported"}
    try:
        return {"result": Context(prec=precision).sqrt(Decimal(number))}
    except InvalidOperation:
        return {"error": "Input must be a number or computation resulted in an invalid operation"}


@arithmetic.tool
def absolute_value(_: MathState, number: Number) -> Any:
    """Computes the absolute value of a number.

    Args:
        number: The number.
    """
    return _bounded(abs(number))


@arithmetic.tool
def round_number(_: MathState, number: Number, decimal_places: int = 0) -> Any:
    """Rounds a number.

    Args:
        number: The number.
        decimal_places: Number of decimal places.
    """
    if decimal_places < -_MOST_DIGITS:
        return {"error": f"Fewer than {-_MOST_DIGITS} decimal places are not supported"}
    return _bounded(round(number, decimal_places))


@arithmetic.tool
def percentage(_: MathState, part: Number, whole: Number) -> Any:
    """Computes how many percent a part is of a whole.

    Args:
        part: The part.
        whole: The whole.
    """
    return {"error": "Whole value cannot be zero"} if whole == 0 else {"result": (part / whole) * 100}


@arithmetic.tool
def min_value(_: MathState, numbers: list[Number]) -> Any:
    """Finds the smallest number.

    Args:
        numbers: The numbers.
    """
    return _bounded(min(numbers)) if numbers else {"error": "Cannot find minimum of an empty list"}


@arithmetic.tool
def max_value(_: MathState, numbers: list[Number]) -> Any:
    """Finds the largest number.

    Args:
        numbers: The numbers.
    """
    return _bounded(max(numbers)) if numbers else {"error": "Cannot find maximum of an empty list"}


@arithmetic.tool
def sum_values(_: MathState, numbers: list[Number]) -> Any:
    """Adds numbers.

    Args:
        numbers: The numbers.
    """
    return _bounded(sum(numbers)) if numbers else {"error": "Cannot calculate sum of an empty list"}
