"""The nesting depth of JSON that the gateway accepts: the same on every Python, whose recursion limits differ."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 500
"""Levels of a request, a reply, or a call's arguments. A record wraps them in a few more, and every supported Python
encodes about twice as many."""
_CONTAINERS: frozenset[Any] = frozenset((dict, list))


def may_be_too_deep(text: bytes) -> bool:
    """Returns whether JSON has more than `MAX_DEPTH` brackets that open a level; `is_too_deep` decides then."""
    most = MAX_DEPTH + 1
    return len(text) > MAX_DEPTH and count_byte(text, b"[", most) + count_byte(text, b"{", most) > MAX_DEPTH


def count_byte(text: bytes, byte: bytes, most: int = -1) -> int:
    """Returns how often a byte occurs, up to `most`. On Python 3.11 and 3.12, `bytes.count` looks at each byte;
    `replace` leaps from one occurrence to the next, which takes a third of the time where they are rare, as in
    text."""
    return len(text) - len(text.replace(byte, b"", most))


def is_too_deep(value: Any) -> bool:
    """Returns whether decoded JSON has more than `MAX_DEPTH` levels. Takes time linear in its values, and no recursion:
    text with no more brackets than that needs no call."""
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
            if part.__class__ in _CONTAINERS
        ]
        if not level:
            return False
    return True
