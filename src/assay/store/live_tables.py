"""Query tables of a live run: a query writes only the rows of events appended since the last one.

Segments are cached in `tables/<shape>/<table>.<after>-<until>.<digest>.parquet`: the rows that the events
`after < seq <= until` give, and the beginning of the digest of the last of them. `shape` stands for the columns.

Invariants: a segment is whole (written aside, then renamed) and never changed; it is used only while the event that it
ends with is still that event; `audit` compares it with the events. It can be removed at any time. Where it cannot be
cached (a read-only folder, a full disk), each query writes everything to its own folder.
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

from .chain import StoreProblem, decode_event
from .parquet import TableWriter, is_same_row, read_rows, write_tables
from .rows import AttemptRow
from .run import RunStore
from .tables import TABLES, event_rows

CACHE_EVENTS = 1000
"""A segment has at least so many events, and a tenth of those before it: few files, and at most that to write again."""
_TYPES = {"steps": "step", "calls": "model_call", "verdicts": "verdict", "evidence": "evidence", "events": None}
_NAME = re.compile(r"([a-z]+)\.(\d{1,18})-(\d{1,18})\.([0-9a-f]{16})\.parquet", re.ASCII)


class Segment(NamedTuple):
    """The rows that a range of events gives."""

    path: Path
    after: int
    until: int


def live_tables(store: RunStore, names: Sequence[str], scratch: Path) -> dict[str, list[Path]]:
    """Returns the files of some tables of a live run, as it is in the caller's snapshot; `scratch` takes what is not
    cached.

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
            known = cached_segments(store, name)
            after = known[-1].until if known else 0
            found[name] = [segment.path for segment in known]
            if last > after or not known:
                found[name].append(_write_segment(store, name, rows, Segment(scratch / f"{name}.parquet", after, last)))
    return found


def cached_segments(store: RunStore, name: str) -> list[Segment]:
    """Returns the cached segments of a table: consecutive, and the first begins with the run."""
    cached: dict[int, Segment] = {}
    for path in _cache_folder(store).glob(f"{name}.*.parquet"):
        found = _NAME.fullmatch(path.name)
        if found is None or found[1] != name:
            continue
        segment = Segment(path, int(found[2]), int(found[3]))
        longer = segment.after not in cached or cached[segment.after].until < segment.until
        if segment.until > segment.after and longer and _digest_prefix(store, segment.until) == found[4]:
            cached[segment.after] = segment
    chained, at = [], 0
    while at in cached:
        chained.append(cached[at])
        at = cached[at].until
    return chained


def check_live_tables(store: RunStore) -> Iterator[StoreProblem]:
    """Compares cached tables with the events."""
    rows = {row.chain: row for row in store.attempts()}
    for name in _TYPES:
        for segment in cached_segments(store, name):
            actual = read_rows(segment.path, name)
            expected = _segment_rows(store, name, rows, segment)
            same = all(is_same_row(next(actual, None), record) for record, _ in expected)
            if not same or next(actual, None) is not None:
                what = f"tables/{segment.path.name} does not say what the events say: remove the folder `tables`"
                yield StoreProblem(store.run, None, None, what)


def _segment_rows(
    store: RunStore, name: str, rows: Mapping[str, AttemptRow], part: Segment
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yields the rows of a table that some events give, with the size of each event."""
    for stored in store.live.later(part.after, part.until, _TYPES[name]):
        if stored.chain not in rows:
            raise StoreError(
                f"chain {stored.chain!r} of run {store.run} has events and no row: run `assay verify {store.run}`"
            )
        for table, record in event_rows(rows[stored.chain], decode_event(stored), stored.body):
            if table == name:
                yield record, len(stored.body)


def _write_segment(store: RunStore, name: str, rows: Mapping[str, AttemptRow], part: Segment) -> Path:
    """Writes a segment, and caches it where it is large enough."""
    with TableWriter(part.path, name) as writer:
        for record, size in _segment_rows(store, name, rows, part):
            writer.add(record, size)
    if part.until - part.after < CACHE_EVENTS + part.after // 10:
        return part.path
    cached = _cache_folder(store) / f"{name}.{part.after}-{part.until}.{_digest_prefix(store, part.until)}.parquet"
    aside = cached.with_name(f"{cached.name}.{os.getpid()}.tmp")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(part.path, aside)
        aside.replace(cached)
    except OSError:  # it is there for speed alone
        with contextlib.suppress(OSError):
            aside.unlink()
        return part.path
    return cached


def _cache_folder(store: RunStore) -> Path:
    return store.layout.tables / digest_record([SCHEMA_VERSION, TABLES]).removeprefix(DIGEST_PREFIX)[:16]


def _digest_prefix(store: RunStore, seq: int) -> str:
    return (store.live.digest_at(seq) or "").removeprefix(DIGEST_PREFIX)[:16]
