"""Numbers and dates in the text that an agent sent to a person.

Covered: thousands separators (commas and spaces), codes and signs of currencies, and the usual spellings of a date. A
date in digits counts with dots, where the day comes first; with slashes only if both orders mean the same day or one of
them is no date. Not covered: commas as decimal points, numbers in words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Final, NamedTuple

_END: Final = r"(?!\w|[.,:/-]\d)"
# Neither a part of a word or of another number, nor of a date, a time or an identifier.
_START: Final = r"(?<![\w.,])(?<!\w-)(?<!\d[:/])[-+]?"
_NUMBER: Final = re.compile(rf"{_START}(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?{_END}")
_SPACED_NUMBER: Final = re.compile(rf"{_START}\d{{1,3}}(?:[ \u00a0\u2009\u202f]\d{{3}})+(?:\.\d+)?{_END}")
_CURRENCIES: Final = (
    "AED|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|THB|TRY|TWD|USD|ZAR"
)
_CODE: Final = re.compile(rf"(?<![\w-])(?:{_CURRENCIES})(?=[-+]?\d)|(?<=\d)(?:{_CURRENCIES})(?!\w)")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*\u2022][ \t]+)?\d{1,3}[.)][ \t]+(?=\S)", re.MULTILINE)
_WORD: Final = re.compile(r"(?<![\w-])(?=[\d_-]*+[^\W\d_])\w[\w-]*+")
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_ANY_MONTH: Final = f"(?:{'|'.join(month[:3] for month in _MONTHS)})[a-z]*\\.?"
_ANY_DATE: Final = re.compile(
    rf"\b(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_ANY_MONTH}"
    rf"|{_ANY_MONTH}\s+\d{{1,2}})(?!\w)",
    re.IGNORECASE,
)

MOST_ALIKE: Final = 6
"""Distinct numbers that may be said between the same two words; above, none of them is a statement."""


def normalize_text(text: str) -> str:
    """Returns a text with composed characters, so that two encodings of a name are equal, and plain minus signs."""
    return unicodedata.normalize("NFC", text).replace("\u2212", "-")


class NumberInText(NamedTuple):
    """A number and the words around it."""

    value: Decimal
    neighbours: tuple[str, str]
    """The word before it and the one after it, in lower case; other numbers are skipped. Empty without one."""


def numbers_in(text: str) -> Iterator[NumberInText]:
    """Yields the numbers in a normalized text; "1 234" is read both as two numbers and as one."""
    if len(_ITEM.findall(text)) > 1:  # a single one may be an answer
        text = _ITEM.sub("", text)
    plain = _CODE.sub(" ", text)
    for found, neighbours in _with_neighbours(_NUMBER, plain):
        yield NumberInText(Decimal(found.replace(",", "")), neighbours)
    for found, neighbours in _with_neighbours(_SPACED_NUMBER, plain):
        yield NumberInText(Decimal(re.sub(r"\s", "", found)), neighbours)


def _with_neighbours(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yields the matches of a pattern with the words before and after them."""
    words = _WORD.finditer(text)
    before, ahead = "", next(words, None)
    for found in pattern.finditer(text):
        while ahead is not None and ahead.start() < found.end():
            if ahead.end() <= found.start():
                before = ahead[0].lower()
            ahead = next(words, None)
        yield found[0], (before, "" if ahead is None else ahead[0].lower())


def holds_date(day: date, text: str) -> bool:
    """Returns whether a normalized text holds a date, with the right year or none."""
    return any(re.search(rf"(?<![\w-]){spelling}(?![\w-])", text, re.IGNORECASE) for spelling in _spellings(day))


def dates_in(text: str) -> Iterator[str]:
    """Yields what looks like a date in a normalized text, in lower case."""
    for found in _ANY_DATE.finditer(text):
        yield found[0].lower()


def _spellings(day: date) -> list[str]:
    """Returns patterns of a date: 2026-03-05, 5 March 2026, March 5, 2026, Mar 5th, 05.03.2026, 13/03/2026."""
    month = _MONTHS[day.month - 1]
    rest = f"{month[3:]}|t" if day.month == 9 else month[3:]
    name = f"{month[:3]}(?:{rest})?\\.?+" if len(month) > 3 else month
    number, year = f"0?{day.day}(?:st|nd|rd|th)?", f"(?:,?\\s+{day.year}|(?!,?\\s+\\d{{4}}(?!\\d)))"
    found = [
        f"{day.isoformat()}(?:T\\d{{2}}:\\d{{2}})?",
        f"{number}\\s+(?:of\\s+)?{name}{year}",
        f"{name}\\s+{number}{year}",
        f"(?<!\\d\\.)0?{day.day}\\.0?{day.month}\\.{day.year}",
    ]
    if day.day > 12 or day.day == day.month:
        found += [
            f"(?<!\\d/)0?{one}/0?{two}/{day.year}(?!/)" for one, two in ((day.day, day.month), (day.month, day.day))
        ]
    return found


class ReadMessage(NamedTuple):
    """A text and the values in it."""

    text: str
    """The normalized text."""
    numbers: frozenset[Decimal]
    """All numbers."""
    stated: frozenset[Decimal]
    """Numbers without those that are among many between the same words."""
    dates: frozenset[str]


def read_message(text: str) -> ReadMessage:
    """Reads the values in a text."""
    text = normalize_text(text)
    alike: dict[tuple[str, str], set[Decimal]] = {}
    for number in numbers_in(text):
        alike.setdefault(number.neighbours, set()).add(number.value)
    stated = (values for values in alike.values() if len(values) <= MOST_ALIKE)
    dates = frozenset(dates_in(text))
    return ReadMessage(text, frozenset().union(*alike.values()), frozenset().union(*stated), dates)
