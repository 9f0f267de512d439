"""Raises the garbage-collector thresholds while a server runs, to avoid scanning many live, acyclic objects."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

Thresholds = tuple[int, int, int]


class _ThresholdRequests:
    """Requested thresholds, and the thresholds before the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[Thresholds] = []
        self._before: Thresholds = gc.get_threshold()

    @contextmanager
    def hold(self, thresholds: Thresholds) -> Iterator[None]:
        with self._lock:
            if not self._active:
                self._before = gc.get_threshold()
            self._active.append(thresholds)
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._active.remove(thresholds)
                self._set()

    def _set(self) -> None:
        if self._before[0]:  # 0: collection is disabled in this process
            gc.set_threshold(*(max(each) for each in zip(self._before, *self._active, strict=True)))


_requests = _ThresholdRequests()


@contextmanager
def raised_thresholds(new: int, young: int = 0, middle: int = 0) -> Iterator[None]:
    """Raises the thresholds of `gc.set_threshold`. Uses may overlap; the last one to end restores the first values.

    Args:
        new: Allocations minus deallocations before a scan of the youngest generation.
        young: Such scans before a scan of the middle generation.
        middle: Scans of the middle generation before one of the oldest.
    """
    with _requests.hold((new, young, middle)):
        yield
