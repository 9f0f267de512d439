"""Immutable values of the standard library as a type's name and one canonical text. Standard library, Python 3.8.

Programs beside this one import it inside a sandbox, and the host reads the same texts with it. Only exact types are
written, so that no method of a subclass runs, and a text is read only where writing its value gives that text again:
bounded digits, exponents and ranges, no signalling NaN, no time zone but a plain offset. Invariant: equal bytes stand
for equal values, and reading them runs constructors of the standard library alone.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import re
import uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DECIMAL_DIGITS = 4000
MAX_EXPONENT = 10_000
MAX_BITS = 16_384
"""Limit of the bits of a fraction's numerator and denominator."""
MAX_TEXT = 10_000
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)E(?:0|-?[1-9][0-9]{0,5})|-?Infinity|-?NaN", re.ASCII)
_FRACTION = re.compile(r"(-?0x[0-9a-f]+)/(0x[0-9a-f]+)", re.ASCII)
_NUMBERS = re.compile(r"-?[0-9]{1,10}(?: [0-9]{1,6}){2}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}(?:[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{6})?)?)?(?: fold)?"
_DAY = re.compile(_DATE, re.ASCII)
_CLOCK = re.compile(_TIME, re.ASCII)
_MOMENT = re.compile(f"{_DATE}T{_TIME}", re.ASCII)
_OLD_DECIMAL = re.compile(r"-?[0-9]{1,4000}(?:\.[0-9]{1,4000})?(?:E[+-]?[0-9]{1,5})?|-?Infinity|-?NaN", re.ASCII)
_OLD_FRACTION = re.compile(r"-?[0-9]{1,4000}(?:/[0-9]{1,4000})?", re.ASCII)
_OLD_TIME = _TIME.replace(r"\.[0-9]{6}(?", r"(?:\.[0-9]{6})?(?", 1).replace("(?: fold)?", "")
_OLD_CLOCK = re.compile(_OLD_TIME, re.ASCII)
_OLD_MOMENT = re.compile(f"{_DATE} {_OLD_TIME}", re.ASCII)


def write_plain(value: Any) -> tuple[str, str] | None:
    """Returns the type's name and the text; None if the type is not exactly a plain one, or a bound is exceeded."""
    kind = _KINDS.get(type(value))
    text = None if kind is None else kind[1](value)
    return None if kind is None or text is None or len(text) > MAX_TEXT else (kind[0], text)


def read_plain(name: Any, text: Any) -> Any:
    """Returns the value of a name and a text. Raises `ValueError` if they are not a result of `write_plain`."""
    read = _READERS.get(name) if type(name) is str else None
    if read is None or type(text) is not str or len(text) > MAX_TEXT:
        raise ValueError("no plain value")
    try:
        made = read(text)
    except (ArithmeticError, TypeError, OverflowError) as exc:
        raise ValueError("no plain value") from exc
    if write_plain(made) != (name, text):
        raise ValueError("no canonical text")
    return made


def read_input(name: Any, text: Any) -> Any:
    """Returns the value of an input of a stored plan, which may hold the texts that `str` gives. Raises
    `ValueError`."""
    read = _OLD_READERS.get(name) if type(name) is str else None
    try:
        return read_plain(name, text)
    except ValueError:
        if read is None or type(text) is not str or len(text) > MAX_TEXT:
            raise
    try:
        made = read(text)
    except (ArithmeticError, OverflowError) as exc:
        raise ValueError("no plain value") from exc
    if write_plain(made) is None:
        raise ValueError("beyond the bounds of a plain value")
    return made


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError("no canonical text")
    return match


def _write_decimal(value: decimal.Decimal) -> str | None:
    sign, digits, exponent = value.as_tuple()
    minus = "-" if sign else ""
    if exponent == "F":
        return minus + "Infinity"
    if exponent == "n" and not digits:
        return minus + "NaN"
    if not isinstance(exponent, int) or len(digits) > MAX_DECIMAL_DIGITS or abs(exponent) > MAX_EXPONENT:
        return None
    return f"{minus}{''.join(map(str, digits))}E{exponent}"


def _read_decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(_matched(_DECIMAL, text)[0])


def _write_fraction(value: fractions.Fraction) -> str | None:
    above, below = value.numerator, value.denominator
    exact = type(above) is int and type(below) is int and max(above.bit_length(), below.bit_length()) <= MAX_BITS
    return f"{above:#x}/{below:#x}" if exact else None


def _read_fraction(text: str) -> fractions.Fraction:
    match = _matched(_FRACTION, text)
    return fractions.Fraction(int(match[1], 16), int(match[2], 16))


def _plain_zone(zone: Any) -> bool:
    """Returns whether a time zone is missing, or an offset without a name of its own."""
    if zone is None:
        return True
    if type(zone) is not datetime.timezone:
        return False
    return zone.tzname(None) == datetime.timezone(zone.utcoffset(None)).tzname(None)


def _write_clock(value: datetime.time | datetime.datetime) -> str | None:
    if not _plain_zone(value.tzinfo):
        return None
    return value.isoformat(timespec="microseconds") + (" fold" if value.fold else "")


def _reader(kind: Any, pattern: re.Pattern[str]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        iso = _matched(pattern, text)[0].replace(" fold", "")
        made = kind.fromisoformat(iso)
        return made.replace(fold=1) if iso != text else made

    return read


def _write_delta(value: datetime.timedelta) -> str:
    return f"{value.days} {value.seconds} {value.microseconds}"


def _read_delta(text: str) -> datetime.timedelta:
    return datetime.timedelta(*map(int, _matched(_NUMBERS, text)[0].split(" ")))


def _write_zone(value: datetime.timezone) -> str | None:
    return _write_delta(value.utcoffset(None)) if _plain_zone(value) else None


def _read_uuid(text: str) -> uuid.UUID:
    return uuid.UUID(hex=_matched(_HEX, text)[0])


_KINDS: dict[type, tuple[str, Callable[[Any], str | None]]] = {
    decimal.Decimal: ("Decimal", _write_decimal),
    fractions.Fraction: ("Fraction", _write_fraction),
    datetime.date: ("date", datetime.date.isoformat),
    datetime.time: ("time", _write_clock),
    datetime.datetime: ("datetime", _write_clock),
    datetime.timedelta: ("timedelta", _write_delta),
    datetime.timezone: ("timezone", _write_zone),
    uuid.UUID: ("UUID", lambda value: f"{value.int:032x}"),
}
_READERS: dict[str, Callable[[str], Any]] = {
    "Decimal": _read_decimal,
    "Fraction": _read_fraction,
    "date": lambda text: datetime.date.fromisoformat(_matched(_DAY, text)[0]),
    "time": _reader(datetime.time, _CLOCK),
    "datetime": _reader(datetime.datetime, _MOMENT),
    "timedelta": _read_delta,
    "timezone": lambda text: datetime.timezone(_read_delta(text)),
    "UUID": _read_uuid,
}
_OLD_READERS: dict[str, Callable[[str], Any]] = {
    "Decimal": lambda text: decimal.Decimal(_matched(_OLD_DECIMAL, text)[0]),
    "Fraction": lambda text: fractions.Fraction(_matched(_OLD_FRACTION, text)[0]),
    "time": _reader(datetime.time, _OLD_CLOCK),
    "datetime": _reader(datetime.datetime, _OLD_MOMENT),
}
PLAIN_TYPES = tuple(_KINDS)
