"""How often the process looks for garbage: more seldom while a server holds many objects that are in no cycle."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["looked_for_seldom"]

Thresholds = tuple[int, int, int]


class _Asked:
    """What those who are at it ask for, and what was set before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._every: list[Thresholds] = []
        self._before: Thresholds = gc.get_threshold()

    def add(self, one: Thresholds) -> None:
        with self._lock:
            if not self._every:
                self._before = gc.get_threshold()
            self._every.append(one)
            self._set()

    def remove(self, one: Thresholds) -> None:
        with self._lock:
            self._every.remove(one)
            self._set()

    def _set(self) -> None:
        if self._before[0]:  # 0: this process looks for none at all
            gc.set_threshold(*(max(each) for each in zip(self._before, *self._every, strict=True)))


_asked = _Asked()


@contextmanager
def looked_for_seldom(new: int, young: int = 0, middle: int = 0) -> Iterator[None]:
    """Raises the thresholds of `gc.set_threshold`; several may, in any order, and what was before comes back.

    Args:
        new: Objects made, less those freed, after which new ones are looked through.
        young: After how many such looks the middle generation is looked through too.
        middle: And the old one, after how many of those.
    """
    one = (new, young, middle)
    _asked.add(one)
    try:
        yield
    finally:
        _asked.remove(one)
