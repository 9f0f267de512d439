"""Tables of a live run: only what was appended since the last query is written.

What a query wrote is kept in `tables/<shape>/<table>.<after>-<until>.<digest>.parquet`: the rows that the events
`after < seq <= until` give, and the beginning of the digest of the last of them. `shape` stands for the columns.

Invariants: a segment is whole (written aside, then renamed) and never changed; it is used only while the event that it
ends with is still that event; `audit` compares it with the events. It can be removed at any time. Where it cannot be
kept, because the folder cannot be written or the disk is full, each query writes everything to its own folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, SCHEMA_VERSION, digest_record

from .chain import event_of
from .parquet import TableWriter, rows_of, same_row, write_tables
from .problem import Problem
from .rows import AttemptRow
from .run import RunStore
from .tables import TABLES, event_rows

__all__ = ["Segment", "live_problems", "live_tables", "segments"]

KEEP_EVENTS = 1000
"""A segment has at least so many events, and a tenth of those before it: few files, and at most that to write again."""
_TYPES = {"steps": "step", "calls": "model_call", "verdicts": "verdict", "evidence": "evidence", "events": None}
_NAME = re.compile(r"([a-z]+)\.(\d{1,18})-(\d{1,18})\.([0-9a-f]{16})\.parquet", re.ASCII)


class Segment(NamedTuple):
    """The rows that some events give."""

    path: Path
    after: int
    until: int


def live_tables(store: RunStore, names: Sequence[str], scratch: Path) -> dict[str, list[Path]]:
    """The files of some tables of a live run, as it is in the snapshot that the caller holds.

    Args:
        store: Open, and live.
        names: Of tables.
        scratch: An empty folder of the caller's for what is not kept.

    Raises:
        StoreError: The run is damaged, or the folder cannot be written.
    """
    found: dict[str, list[Path]] = {}
    if "trajectories" in names:
        write_tables(store, scratch, ["trajectories"])
        found["trajectories"] = [scratch / "trajectories.parquet"]
    if set(names) <= {"trajectories"}:
        return found
    rows = {row.chain: row for row in store.attempts()}
    last = store.live.last_seq()
    for name in names:
        if name in _TYPES:
            known = segments(store, name)
            after = known[-1].until if known else 0
            found[name] = [segment.path for segment in known]
            if last > after or not known:
                found[name].append(_written(store, name, rows, Segment(scratch / f"{name}.parquet", after, last)))
    return found


def segments(store: RunStore, name: str) -> list[Segment]:
    """What is kept of a table: each follows the one before it, the first begins with the run."""
    kept: dict[int, Segment] = {}
    for path in _folder(store).glob(f"{name}.*.parquet"):
        found = _NAME.fullmatch(path.name)
        if found is None or found[1] != name:
            continue
        segment = Segment(path, int(found[2]), int(found[3]))
        longer = segment.after not in kept or kept[segment.after].until < segment.until
        if segment.until > segment.after and longer and _mark(store, segment.until) == found[4]:
            kept[segment.after] = segment
    chained, at = [], 0
    while at in kept:
        chained.append(kept[at])
        at = kept[at].until
    return chained


def live_problems(store: RunStore) -> Iterator[Problem]:
    """Where kept tables do not say what the events say."""
    rows = {row.chain: row for row in store.attempts()}
    for name in _TYPES:
        for segment in segments(store, name):
            actual = rows_of(segment.path, name)
            expected = _records(store, name, rows, segment)
            same = all(same_row(next(actual, None), record) for record, _ in expected)
            if not same or next(actual, None) is not None:
                what = f"tables/{segment.path.name} does not say what the events say: remove the folder `tables`"
                yield Problem(store.run, None, None, what)


def _records(
    store: RunStore, name: str, rows: Mapping[str, AttemptRow], part: Segment
) -> Iterator[tuple[dict[str, Any], int]]:
    """The rows of a table that some events give, with the size of each event."""
    for stored in store.live.later(part.after, part.until, _TYPES[name]):
        if stored.chain not in rows:
            raise StoreError(
                f"chain {stored.chain!r} of run {store.run} has events and no row: run `assay verify {store.run}`"
            )
        for table, record in event_rows(rows[stored.chain], event_of(stored), stored.body):
            if table == name:
                yield record, len(stored.body)


def _written(store: RunStore, name: str, rows: Mapping[str, AttemptRow], part: Segment) -> Path:
    """Writes a segment, and keeps it where it is large enough."""
    with TableWriter(part.path, name) as writer:
        for record, size in _records(store, name, rows, part):
            writer.add(record, size)
    if part.until - part.after < KEEP_EVENTS + part.after // 10:
        return part.path
    kept = _folder(store) / f"{name}.{part.after}-{part.until}.{_mark(store, part.until)}.parquet"
    aside = kept.with_name(f"{kept.name}.{os.getpid()}.tmp")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(part.path, aside)
        aside.replace(kept)
    except OSError:  # it is there for speed alone
        with contextlib.suppress(OSError):
            aside.unlink()
        return part.path
    return kept


def _folder(store: RunStore) -> Path:
    return store.layout.tables / digest_record([SCHEMA_VERSION, TABLES]).removeprefix(DIGEST_PREFIX)[:16]


def _mark(store: RunStore, seq: int) -> str:
    return (store.live.digest_at(seq) or "").removeprefix(DIGEST_PREFIX)[:16]
