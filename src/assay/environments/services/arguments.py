"""Arguments of calls as they are logged: JSON data of a bounded size, without characters that no text here may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assay.records import canonical_bytes

MOST_ARGUMENTS: Final = 256 << 10
"""Largest encoded size of the arguments of one call, in bytes."""


def readable_arguments(arguments: dict[str, Any]) -> tuple[dict[str, Any], int, str]:
    """Returns the arguments as they are logged, their encoded size, and what is wrong with them ('' if nothing).

    Arguments that cannot be stored are logged as empty.
    """
    try:
        encoded = canonical_bytes(arguments)
    except (UnicodeError, OverflowError, RecursionError, TypeError, ValueError) as exc:
        return {}, 0, f"The arguments are not JSON data: {exc}."
    if len(encoded) > MOST_ARGUMENTS:
        return {}, 0, f"The arguments are too large: at most {MOST_ARGUMENTS >> 10} KiB."
    if b"\\u0000" in encoded and any("\0" in text for text in _texts(arguments)):
        return {}, 0, "The arguments hold the character U+0000, which no text here may have."
    return arguments, len(encoded), ""


def _texts(value: Any) -> list[str]:
    """Returns all texts in JSON data, joined lists of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for part in pair for text in _texts(part)]
    return [text for part in value for text in _texts(part)] if isinstance(value, list | tuple) else []
