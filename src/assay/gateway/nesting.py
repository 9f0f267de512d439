"""The nesting depth of JSON that the gateway accepts: the same on every Python, whose recursion limits differ."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 500
"""Levels of a request, a reply, or a call's arguments. A record wraps them in a few more, and every supported Python
encodes about twice as many."""
_CONTAINERS: frozenset[Any] = frozenset((dict, list))


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
