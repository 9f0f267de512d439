"""Bounds of JSON from clients: its depth, the same on every Python, whose recursion limits differ; and its memory."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_DEPTH = 500
"""Levels of a request, a reply, or a call's arguments. A record wraps them in a few more, and every supported Python
encodes about twice as many."""
_CONTAINERS: frozenset[Any] = frozenset((dict, list))
VALUE_BYTES = 100
"""Approximate bytes of one decoded JSON value."""
_MOSTLY_TEXT = 64 * 1024
"""Bytes up to which commas and brackets are searched one by one: in a body of little else that takes 5 ns a byte, ten
times as long as a look at each byte."""
_NON_STRUCTURAL = bytes(byte for byte in range(256) if byte not in b"[{,")
_ENCODE = msgspec.json.Encoder().encode


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


def count_structure(raw: bytes) -> tuple[int, int]:
    """Returns the commas and the opening brackets of JSON, which its values do not outnumber by more than one."""
    if len(raw) > _MOSTLY_TEXT:
        structural = raw.translate(None, _NON_STRUCTURAL)
        commas = structural.count(b",")
        return commas, len(structural) - commas
    return count_byte(raw, b","), count_byte(raw, b"[") + count_byte(raw, b"{")


def estimate_memory(value: Any) -> int:
    """Returns the approximate bytes of memory of a decoded JSON value."""
    raw = _ENCODE(value)
    return len(raw) + sum(count_structure(raw)) * VALUE_BYTES
