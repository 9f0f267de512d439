"""Parses options written as `key=value`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from assay.errors import UserError


def read_value(text: str) -> Any:
    """Parses a value as JSON (`7`, `true`, `"7"`, `[1, 2]`) or as a Python number (`.5`, `1_000`); else returns the
    text. `null` is the text: omit an option to leave it unset."""
    readers: tuple[Callable[[str], Any], ...] = (msgspec.json.decode, int, float)
    for read in readers:
        try:
            found = read(text)
        except (ValueError, RecursionError):
            continue
        nothing = found is None or (isinstance(found, float) and not math.isfinite(found))
        return text if nothing else found
    return text


def read_pairs(
    pairs: Iterable[str],
    where: str,
    form: str,
    *,
    read: Callable[[str], Any] = read_value,
    named: Callable[[str], bool] = str.isidentifier,
) -> dict[str, Any]:
    """Returns the options by key.

    Args:
        pairs: Each `key=value`; a value may hold further equals signs, or nothing.
        where: What they were read from, for an error: `--knob`, or the whole word.
        form: What to write instead, for an error.
        read: Gives a value its meaning.
        named: Whether a word is a key.

    Raises:
        UserError: A pair is of another form, or a key is given twice.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not named(key) or key in options:
            what = "is given twice" if key in options else "is not of the form key=value"
            raise UserError(f"{where}: {pair!r} {what}; {form}")
        options[key] = read(value)
    return options
