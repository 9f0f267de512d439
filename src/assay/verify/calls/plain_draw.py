"""Draws other values of the standard library's plain types for fresh inputs."""

from __future__ import annotations

import datetime
import math
import random
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

from assay.verify.payload.plain_values import read_plain, write_plain

GROWTH = 8


def draw_plain(rng: random.Random, name: str, text: str) -> tuple[str, str]:
    """Returns another value of the same type, near a recorded one; the recorded one if none could be drawn."""
    try:
        recorded = read_plain(name, text)
        drawn = write_plain(_changed(rng, recorded))
    except (ValueError, ArithmeticError):
        return name, text
    return drawn or (name, text)


def _changed(rng: random.Random, value: Any) -> Any:
    if isinstance(value, Decimal):
        return _changed_decimal(rng, value)
    if isinstance(value, Fraction):
        above, below = _shifted(rng, value.numerator), _shifted(rng, value.denominator)
        return Fraction(above, below or 1)
    if isinstance(value, uuid.UUID):
        return uuid.UUID(int=rng.getrandbits(128))
    if isinstance(value, datetime.timedelta):
        return value + _span(rng)
    if isinstance(value, datetime.datetime):
        return value + _span(rng)
    if isinstance(value, datetime.date):
        return value + datetime.timedelta(days=_shift(rng, 4000))
    if isinstance(value, datetime.time):
        start = datetime.datetime.combine(datetime.date(2000, 1, 1), value)
        return (start + _span(rng)).timetz()
    return datetime.timezone(datetime.timedelta(minutes=15 * rng.randint(-48, 56)))


def _changed_decimal(rng: random.Random, value: Decimal) -> Decimal:
    """Returns a decimal with new digits, to about as many places as recorded."""
    if not value.is_finite():
        return Decimal(rng.randint(-9, 9))
    sign, digits, exponent = value.as_tuple()
    number = _shifted(rng, int("".join(map(str, digits))))
    places = int(exponent) + (rng.choice((-1, 1)) if rng.random() < 0.3 else 0)
    negative = sign != (rng.random() < 0.1) or number < 0
    return Decimal((int(negative), tuple(map(int, str(abs(number)))), places))


def _shift(rng: random.Random, high: int) -> int:
    """Returns an integer between `-high` and `high`; small ones are likelier."""
    size = int(math.exp(rng.random() * math.log(high + 1)))
    return rng.choice((-size, size))


def _shifted(rng: random.Random, number: int) -> int:
    if rng.random() < 0.3:
        return number + rng.choice((-1, 1))
    size = rng.randint(1, GROWTH * len(str(abs(number))))
    return rng.randrange(10 ** min(size, len(str(abs(number))) + 4))


def _span(rng: random.Random) -> datetime.timedelta:
    unit = rng.choice(("days", "hours", "minutes", "seconds", "microseconds"))
    return datetime.timedelta(**{unit: _shift(rng, 4000)})
