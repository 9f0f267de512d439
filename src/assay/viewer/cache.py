"""Caches views while their run is unchanged.

Invariant: a cached view is returned only if its run's stamp is the one that was read before it was made.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from assay.records import digest_bytes

from .interface import encode_part
from .stamp import run_stamp
from .views import make_view


class CachedView(NamedTuple):
    """A view's JSON and its ETag."""

    body: bytes
    tag: str


class ViewCache:
    """A thread-safe LRU cache of one store's views."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self._root = root
        self._limit = limit_bytes
        self._size_bytes = 0
        self._cached: OrderedDict[str, tuple[str, CachedView]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> CachedView | None:
        """Returns a view, from the cache if it is current; raises what `views.make_view` raises."""
        now = _run_stamp(self._root, name)
        with self._lock:
            known = self._cached.get(name)
            if known is not None and now is not None and known[0] == now:
                self._cached.move_to_end(name)
                return known[1]
        body = make_view(self._root, name)
        if body is None:
            return None
        fresh = CachedView(body, f'"{digest_bytes(body)[7:39]}"')
        if now is not None and len(body) <= self._limit // 4:
            self._store(name, now, fresh)
        return fresh

    def _store(self, name: str, now: str, fresh: CachedView) -> None:
        with self._lock:
            before = self._cached.pop(name, None)
            self._size_bytes += len(fresh.body) - (len(before[1].body) if before else 0)
            self._cached[name] = now, fresh
            while self._size_bytes > self._limit:
                _, (_, dropped) = self._cached.popitem(last=False)
                self._size_bytes -= len(dropped.body)


def _run_stamp(root: Path, name: str) -> str | None:
    """Returns the stamp of a view's run; None for a view of no single run."""
    kind, _, rest = name.partition("/")
    run = rest.partition("/")[0]
    # No name of a run has anything to decode.
    return run_stamp(root, run) if kind == "run" and encode_part(run) == run else None
