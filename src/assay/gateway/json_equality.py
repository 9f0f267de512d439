"""Equality of decoded JSON. For Python, `1`, `1.0` and `true` are equal values; in JSON they are three."""

from __future__ import annotations

from typing import Any

import msgspec

_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_PLAIN = (str, type(None))


def has_numbers(value: Any) -> bool:
    """Returns whether a value holds a number or a boolean; without any, `==` is exact."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item
        elif not isinstance(item, _PLAIN):
            return True
    return False


def text_memory(value: Any) -> int | None:
    """Returns the bytes of memory of an object that holds texts and nulls alone; None for any other value. Of such
    objects, which most messages are, `==` is exact."""
    if type(value) is not dict:
        return None
    size: int = value.__sizeof__()
    for key, item in value.items():
        size += key.__sizeof__()
        if type(item) is str:
            size += item.__sizeof__()
        elif item is not None:
            return None
    return size


def is_same_json(one: Any, other: Any) -> bool:
    """Returns whether two values are the same JSON, in any order of keys. False for what is no JSON."""
    return one is other or (bool(one == other) and (text_memory(one) is not None or has_same_text(one, other)))


def has_same_text(one: Any, other: Any) -> bool:
    """Returns whether two values that are equal for Python are written alike."""
    try:
        return bool(_ENCODE(one) == _ENCODE(other))
    except (TypeError, ValueError, RecursionError):
        return False


def json_key(value: Any) -> int:
    """Returns a hash that is the same for the same JSON."""
    try:
        return hash(_ENCODE(value))
    except (TypeError, ValueError, RecursionError):
        return hash(repr(value))
