"""Values of WebArena-Verified, compared by type as its evaluators compare them.

A wanted value may be a list of alternatives, or a pattern from `^` to `$`. A given value is never read as a pattern,
whatever it looks like, so no agent writes one that matches everything; upstream reads patterns on both sides.
"""

from __future__ import annotations

import calendar
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from .webarena_patterns import Uncovered, matches

_HYPHEN: Final = re.compile("(?<=[a-zA-Z])[-\u00ad\u2010-\u2015\u2212]|[-\u00ad\u2010-\u2015\u2212](?=[a-zA-Z])")
_SIGNS: Final = str.maketrans("", "", "\u2122\u00ae\u2120\u00a9")
_MARKS: Final = "'\"`.,;:!?"
_TOLERANCE: Final = 0.1
_DATES: Final = ("%m/%d/%Y", "%Y-%m-%d", "%m/%d/%y", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%Y/%m/%d")


def is_pattern(value: Any) -> bool:
    """Returns whether a wanted value is a pattern."""
    return isinstance(value, str) and len(value) > 1 and value[0] == "^" and value[-1] == "$"


def plain(text: str) -> str:
    """Returns a text without regard to case, accents, hyphens between words, signs and control characters."""
    text = _HYPHEN.sub(" ", unicodedata.normalize("NFKC", text.translate(_SIGNS)))
    spaced = "".join(" " if one in "\t\n\r" else one for one in text)
    shown = (one for one in unicodedata.normalize("NFKD", spaced) if not unicodedata.combining(one))
    return " ".join("".join(one for one in shown if not unicodedata.category(one).startswith("C")).casefold().split())


def equal_texts(wanted: str, given: str) -> bool:
    """Compares texts, also without marks at their ends. Raises `Uncovered` for a pattern that cannot be tried."""
    if is_pattern(wanted):
        return matches(wanted, plain(given))
    one, other = plain(wanted), plain(given)
    return one == other or one.strip(_MARKS) == other.strip(_MARKS)


def equal_values(kind: str, wanted: Any, given: Any) -> bool:
    """Compares values of a type, of which either may be several alternatives. Raises `Uncovered`."""
    read = TYPES.get(kind)
    if read is None:
        raise Uncovered(f"data of the type {kind} is not covered")
    wanted_ones = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    given_ones = list(given) if isinstance(given, list | tuple) else [given]
    if isinstance(wanted, list | tuple) and len(wanted_ones) < 2:
        raise Uncovered("alternatives of which there is one are an error upstream")
    if isinstance(given, list | tuple) and len(given_ones) < 2:
        return False
    if kind == "string":
        texts = [_as_text(one) for one in given_ones]
        return any(equal_texts(_as_text(one), text) for one in wanted_ones for text in texts)
    wanted_read = [read(one) for one in wanted_ones]
    if None in wanted_read:
        raise Uncovered(f"the wanted {kind} {str(wanted)[:80]} is not covered")
    found = [one for value in given_ones if (one := read(value)) is not None]
    if kind == "currency":
        return any(abs(one - other) <= _TOLERANCE + 1e-9 for one in wanted_read for other in found)
    return any(one == other for one in wanted_read for other in found)


def _as_text(value: Any) -> str:
    return str(value) if value else ""  # a zero is an empty text upstream, too


def equal_lists(
    wanted: Sequence[Any], given: Sequence[Any], equal: Callable[[Any, Any], bool], *, ordered: bool = False
) -> bool:
    """Compares lists by a comparison of items, in any order but for `ordered`."""
    if len(wanted) != len(given):
        return False
    if ordered:
        return all(equal(one, other) for one, other in zip(wanted, given, strict=True))
    left = list(given)
    for one in wanted:
        found = next((at for at, other in enumerate(left) if equal(one, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def read_number(value: Any) -> float | None:
    """Returns a number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(str(value).replace(",", "").replace(" ", ""))
    except ValueError:
        return None


def _read_month(value: Any) -> int | None:
    text = str(value).strip().lower()
    if text.isdecimal() and len(text) <= 2:
        return int(text) if 1 <= int(text) <= 12 else None
    names = [name.lower() for name in calendar.month_name]
    return next((at for at, name in enumerate(names) if at and len(text) >= 3 and name.startswith(text)), None)


def _read_truth(value: Any) -> bool | None:
    known = {"true": True, "yes": True, "false": False, "no": False}
    return known.get(str(value).strip().lower())


def _read_date(value: Any) -> date | None:
    text = re.sub(r",(?! )", ", ", str(value).strip())
    for form in _DATES:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007  a date has no zone
        except ValueError:
            continue
    if any(one.isdecimal() for one in text) and len(text) < 100:
        raise Uncovered(f"the date {text[:40]} is not covered")
    return None


def _read_amount(value: Any) -> float | None:
    text = str(value).strip()
    sign = -1 if text.startswith("-") else 1
    found = re.search(r"\d[\d.,]*", text)
    if found is None or isinstance(value, bool):
        return None
    digits = found[0].rstrip(".,")
    point = "." if text.rfind(".") > text.rfind(",") else ","
    whole, _, part = digits.rpartition(point) if point in digits else (digits, "", "")
    number = f"{re.sub('[.,]', '', whole) or 0}.{re.sub('[.,]', '', part) or 0}"
    return sign * float(number)


def _read_items(value: Any) -> tuple[str, ...] | None:
    items = [one.strip() for one in plain(str(value)).split(",")]
    return tuple(sorted(one for one in items if one)) or None


def _read_markdown(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    lines = [line.rstrip(" \t") for line in value.strip().replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    lines = [re.sub(r"^(\s*)(#{1,6})[ \t]+", r"\1\2 ", line) for line in lines]
    lines = [re.sub(r"^(\s*)[*+][ \t]+", r"\1- ", line) for line in lines]
    lines = [re.sub(r"^[ \t]+-", "  -", line) for line in lines]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    text = re.sub(r"\[([^\[\]]{1,2000})\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    return re.sub(r"\(\s{0,20}([^()]{1,2000}?)\s{0,20}\)", r"(\1)", text).strip()


def _read_json(value: Any) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        return json.dumps(json.loads(value), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": str,
    "number": read_number,
    "integer": read_number,
    "month": _read_month,
    "boolean": _read_truth,
    "null": lambda _: None,
    "date": _read_date,
    "currency": _read_amount,
    "string_list": _read_items,
    "markdown": _read_markdown,
    "json": _read_json,
}
"""Readers of the types that are covered; None for a value that is not of the type."""


def kind_of(schema: Mapping[str, Any]) -> str:
    """Returns the type that a schema names."""
    return str(schema.get("format") or schema.get("type") or "string")
