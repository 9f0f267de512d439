"""A run's attempts with their current verdicts, which most pages of the run begin from.

Invariant: what is kept belongs to the stamp of the run that was read in the same snapshot.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from assay.store import AttemptRow, RunStore, current_verdicts_by_chain
from assay.verdicts import CurrentVerdicts

from .stamp import stamp_of

KEPT_RUNS: Final = 4
KEPT_ATTEMPTS: Final = 40_000
"""Largest run that is kept: an attempt takes about 2 kB."""


class JudgedRows(NamedTuple):
    """All attempts of a run, certificates included, and the current verdicts of their chains. Not to be changed."""

    rows: Sequence[AttemptRow]
    stands: Mapping[str, CurrentVerdicts]


_lock = threading.Lock()
_kept: OrderedDict[tuple[Path, str], tuple[str, JudgedRows]] = OrderedDict()


def read_judged_rows(store: RunStore) -> JudgedRows:
    """Returns the attempts of a run that is open in a snapshot, from memory where the run is as it was.

    Raises:
        StoreError: The run is damaged.
    """
    key, stamp = (store.layout.root.absolute(), store.run), stamp_of(store)
    with _lock:
        known = _kept.get(key)
        if known is not None and known[0] == stamp:
            _kept.move_to_end(key)
            return known[1]
    rows = store.attempts()
    found = JudgedRows(rows, current_verdicts_by_chain(store, rows))
    with _lock:
        _kept.pop(key, None)
        if len(rows) <= KEPT_ATTEMPTS:
            _kept[key] = stamp, found
        while len(_kept) > 1 and (len(_kept) > KEPT_RUNS or _count_kept() > KEPT_ATTEMPTS):
            _kept.popitem(last=False)
    return found


def _count_kept() -> int:
    return sum(len(judged.rows) for _, judged in _kept.values())
