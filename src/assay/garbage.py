"""How often the process looks for garbage: more seldom while a server holds many objects that are in no cycle."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["looked_for_seldom"]

_lock = threading.Lock()
_wanted: list[tuple[int, int, int]] = []
_before = gc.get_threshold()


@contextmanager
def looked_for_seldom(new: int, young: int = 10, middle: int = 10) -> Iterator[None]:
    """Raises the thresholds of `gc.set_threshold`; several may, in any order, and what was before comes back.

    Args:
        new: Objects made, less those freed, after which new ones are looked through; Python's own is 700.
        young: After how many such looks the middle generation is looked through too.
        middle: And the old one, after how many of those.
    """
    global _before
    asked = (new, young, middle)
    with _lock:
        if not _wanted:
            _before = gc.get_threshold()
        _wanted.append(asked)
        _set()
    try:
        yield
    finally:
        with _lock:
            _wanted.remove(asked)
            _set()


def _set() -> None:
    gc.set_threshold(*(max(each) for each in zip(_before, *_wanted, strict=True)))
