"""Keeps the views that were made, while what they were made from stands unchanged.

Invariant: a kept view is answered only if its run's stamp is still the one that was read before it was made.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from assay.records import digest_bytes

from .interface import encoded
from .stamp import stamp_of
from .views import view

__all__ = ["Kept", "ViewCache"]


class Kept(NamedTuple):
    """A view's JSON, and what changes when it does."""

    body: bytes
    tag: str


class ViewCache:
    """Views of one store, the least recently asked for dropped first. Any thread may ask."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self._root = root
        self._limit = limit_bytes
        self._held = 0
        self._kept: OrderedDict[str, tuple[str, Kept]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> Kept | None:
        """A view, made anew where it must be; raises what `views.view` raises."""
        now = _stamp(self._root, name)
        with self._lock:
            known = self._kept.get(name)
            if known is not None and now is not None and known[0] == now:
                self._kept.move_to_end(name)
                return known[1]
        body = view(self._root, name)
        if body is None:
            return None
        made = Kept(body, f'"{digest_bytes(body)[7:39]}"')
        if now is not None and len(body) <= self._limit // 4:
            self._keep(name, now, made)
        return made

    def _keep(self, name: str, now: str, made: Kept) -> None:
        with self._lock:
            before = self._kept.pop(name, None)
            self._held += len(made.body) - (len(before[1].body) if before else 0)
            self._kept[name] = now, made
            while self._held > self._limit:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._held -= len(dropped.body)


def _stamp(root: Path, name: str) -> str | None:
    """What changes with all that is known of the run that a view is of; None where it is of no single run."""
    kind, _, rest = name.partition("/")
    run = rest.partition("/")[0]
    # No name of a run has anything to decode.
    return stamp_of(root, run) if kind == "run" and encoded(run) == run else None
