"""Compares summary rows with their chains, each time that rows are shown or counted.

A row is a summary; the chain is the record. A writer of the SQLite file or of `trajectories.parquet` could turn a fail
into a pass in a row alone. So rows are folded from the chain's own events, and differing fields are reported. Only the
few events that a row depends on are read, and their digests are recomputed.

Not for the chain as a whole: `audit` recomputes every link.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain as chain_iterables
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from blake3 import blake3

from assay.errors import StoreError
from assay.gc_tuning import raised_thresholds
from assay.records import AttemptStarted, VerdictAdded, canonical_bytes, digest_bytes

from .arrow_arrays import byte_values, integer_values, text_values, utf8_values
from .chain import LINK_BYTES, decode_raw, link_digest, to_link
from .database import connect, store_errors
from .layout import Layout
from .row_cache import LEAST_CHAINS, RowCache
from .rows import SUMMED, AttemptRow, RowBuilder
from .run import RunStore
from .sealed import SealedRun, VerdictSummary, file_digest, summary_of


class CheckedRows(NamedTuple):
    """Rows folded from the chains' events, in the order in which the chains began."""

    rows: list[AttemptRow]
    differing: dict[str, tuple[str, ...]]
    """Chain to the fields in which its stored row, or (`events`) an event's digest, differs; `run` too where it was
    recorded in another run."""
    verdicts: list[VerdictSummary]
    """Every verdict of the chains in short, chain by chain in the order in which they were given."""

    def warning(self) -> str | None:
        if not self.differing:
            return None
        first = next(iter(self.differing))
        many = len(self.differing) > 1
        what = (
            "summary rows do not say what their chains say" if many else "summary row does not say what its chain says"
        )
        fields = ", ".join(self.differing[first])
        return f"{len(self.differing)} {what} ({first}: {fields}); the chains count here; `assay verify` tells more"


def check_rows(store: RunStore, chain: str | None = None) -> CheckedRows:
    """Folds the row of every chain, or of one, from its events and compares it with the stored one.

    The result of a large run is kept for the next time (`row_cache`): of a run that nothing is written to by its files,
    of another one chain by chain.

    Raises:
        StoreError: The run is damaged.
    """
    with raised_thresholds(100_000, 50, 100):  # rows are many small objects without cycles
        key = None if chain is not None else _files_key(store)
        kept = None if key is None else _WHOLE.load(key)
        if kept is not None:
            return kept
        checked = _fold_rows(store, chain, by_chain=key is None)
        if key is not None and key == _files_key(store):
            _WHOLE.save(key, checked)  # the files are those that were read
        return checked


def _files_key(store: RunStore) -> str | None:
    """Returns the name of the entry for the files that the rows of a large run depend on, as they are now; None where
    nothing is to be kept."""
    files = _sealed_files(store) if store.is_sealed else _resting_files(store)
    return None if files is None else _WHOLE.key(store.run, *map(file_digest, files))


def _sealed_files(store: RunStore) -> list[Path] | None:
    """Returns the files that the rows of a large sealed run depend on."""
    folder = store.layout.sealed
    return None if SealedRun(folder).seal.chains < LEAST_CHAINS else [folder / name for name in _FOLDED]


def _resting_files(store: RunStore) -> list[Path] | None:
    """Returns the files of a large live run, unless it was written to a moment ago: its next bytes would be others."""
    database = store.layout.sqlite
    log = database.with_name(f"{database.name}-wal")  # which a reader makes, too
    files = [database, log] if log.exists() and log.stat().st_size else [database]
    stats = [path.stat() for path in files]
    is_large = sum(one.st_size for one in stats) >= LEAST_LIVE_BYTES
    is_resting = time.time() - max(one.st_mtime for one in stats) > REST_S
    return files if is_large and is_resting else None


def _fold_rows(store: RunStore, chain: str | None, *, by_chain: bool) -> CheckedRows:
    """Checks the chains of a run; of a large live run `by_chain`, those whose bytes are known need no folding."""
    found = CheckedRows([], {}, [])
    read = _read_sealed if store.is_sealed else _read_live
    with read(store.layout, chain) as inputs:
        is_large = by_chain and chain is None and not store.is_sealed and len(inputs.stored) >= LEAST_CHAINS
        known = _ChainCache(store.layout.sqlite) if is_large else None
        eventless: Iterable[tuple[str, list[Any]]] = ((name, []) for name in list(inputs.tails))
        for name, events in chain_iterables(inputs.events, eventless):
            if name not in inputs.tails:
                continue  # its events came before
            facts = store.run, name, inputs.tails.pop(name), inputs.stored.pop(name, None)
            records = map(inputs.read_event, events)
            checked = _check_chain(facts, records) if known is None else known.check(facts, events, records)
            found.rows.append(checked.row)
            found.verdicts.extend(checked.verdicts)
            if checked.differing:
                found.differing[name] = checked.differing
        if known is not None:
            known.save()
    differing = found.differing | dict.fromkeys(inputs.stored, ("missing events",))
    return CheckedRows(
        sorted(found.rows, key=lambda row: (row.started or 0.0, row.chain)),
        dict(sorted(differing.items())),
        found.verdicts,
    )


class _CheckedChain(NamedTuple):
    """Result of checking one chain."""

    row: AttemptRow
    differing: tuple[str, ...]
    verdicts: list[VerdictSummary]


_ChainFacts = tuple[str, str, tuple[int, str, int], bytes | None]
"""Run and name of a chain; its length, head, and number of steps; its stored row."""
_Record = tuple[int, bytes, bool]
"""Index and body of an event, and whether its digest is that of its bytes."""
NEW_SHARE = 0.05
"""Chains of a live run that are kept again only with more new ones than this share."""
_FOLDED = ("events.parquet", "trajectories.parquet")
LEAST_LIVE_BYTES = 4 << 20
REST_S = 10.0
_WHOLE, _LIVE = RowCache(CheckedRows), RowCache(dict[bytes, _CheckedChain])


class _ChainCache:
    """The checked chains of a large live run, by the bytes that they are folded from."""

    def __init__(self, path: Path) -> None:
        self._key = _LIVE.key(str(path.resolve()))
        self._known = (None if self._key is None else _LIVE.load(self._key)) or {}
        self._met: dict[bytes, _CheckedChain] = {}

    def check(self, facts: _ChainFacts, events: list[Any], records: Iterable[_Record]) -> _CheckedChain:
        """Returns a known chain, or checks it by its records."""
        key = blake3(msgspec.msgpack.encode((facts, events))).digest()
        checked = self._met[key] = self._known.get(key) or _check_chain(facts, records)
        return checked

    def save(self) -> None:
        """Keeps the chains that were met, if enough of them are new."""
        new = len(self._met.keys() - self._known.keys())
        if self._key is not None and new > len(self._met) * NEW_SHARE:
            _LIVE.save(self._key, self._met)


class _RowInputs(NamedTuple):
    """The data that rows are folded from."""

    events: Iterable[tuple[str, list[Any]]]
    """Those of `SUMMED` types in order, by chain."""
    read_event: Callable[[Any], _Record]
    stored: dict[str, bytes]
    """The stored rows of the chains that were not checked yet."""
    tails: dict[str, tuple[int, str, int]]
    """Length, head, and number of steps of the chains that were not checked yet."""


@contextlib.contextmanager
def _read_live(layout: Layout, only: str | None) -> Iterator[_RowInputs]:
    types = ", ".join(f"'{name}'" for name in SUMMED)
    one, arguments = ("", ()) if only is None else (" AND chain = ?", (only,))
    with contextlib.closing(connect(layout.sqlite, write=False)) as connection, store_errors(layout.sqlite):
        connection.execute("BEGIN")
        rows = connection.execute(f"SELECT chain, CAST(row AS BLOB) FROM attempts WHERE 1{one}", arguments)
        stored: dict[str, bytes] = dict(rows.fetchall())
        # The digest lies behind the body, which may fill pages: it is read of the last event alone.
        lengths = f"""SELECT chain, max(idx) AS top, count(*) FILTER (WHERE type = 'step') AS steps
            FROM events WHERE 1{one} GROUP BY chain"""
        query = f"SELECT chain, top + 1, digest, steps FROM ({lengths}) JOIN events USING (chain) WHERE idx = top"
        tails = {row[0]: row[1:] for row in connection.execute(query, arguments)}
        wanted = f"type IN ({types}){one}"
        query = f"SELECT chain, idx, previous, body, digest FROM events WHERE {wanted} ORDER BY chain, idx"
        chains = groupby(connection.execute(query, arguments), key=itemgetter(0))
        yield _RowInputs(((chain, list(rows)) for chain, rows in chains), _live_record, stored, tails)
        connection.execute("ROLLBACK")


def _live_record(row: tuple[str, object, str, object, str]) -> _Record:
    """Checks the digest of a stored event. Raises `StoreError` as `to_link`."""
    link = to_link(*row)
    return link.index, link.body, link_digest(link.chain, link.index, link.previous, link.body) == link.digest


@contextlib.contextmanager
def _read_sealed(layout: Layout, only: str | None) -> Iterator[_RowInputs]:
    events: dict[str, list[_Record]] = defaultdict(list)
    stored: dict[str, bytes] = {}
    tails: dict[str, tuple[int, str, int]] = {}
    with contextlib.closing(SealedRun(layout.sealed)) as sealed:
        for group in range(sealed.group_count("trajectories")):
            table = sealed.columns("trajectories", group, ["chain", "row"])
            rows = zip(table["chain"].to_pylist(), table["row"].to_pylist(), strict=True)
            stored |= dict(rows) if only is None else {chain: row for chain, row in rows if chain == only}
        for group in range(sealed.group_count("events")):
            _sum_events(sealed.columns("events", group, _EVENT_COLUMNS, coded=_CODED), only, events, tails)
    for records in events.values():
        records.sort(key=itemgetter(0))
    yield _RowInputs(events.items(), lambda record: record, stored, tails)


_EVENT_COLUMNS = ("chain", "index", "previous", "body", "digest", "type")
_CODED = ("chain", "type")


def _sum_events(
    table: Any, only: str | None, events: dict[str, list[_Record]], tails: dict[str, tuple[int, str, int]]
) -> None:
    """Adds the records and the tails of a row group. Only values of `SUMMED` events and of the last event of a chain
    become Python objects, without `pyarrow.compute`, whose import takes as long as reading 5,000 events.

    Raises:
        StoreError: A value is missing.
    """
    import numpy as np

    table = table.combine_chunks()
    if not len(table):
        return
    chain, index, previous, body, digest, kind = (table[name].chunk(0) for name in _EVENT_COLUMNS)
    try:
        codes, indexes, kinds = integer_values(chain.indices), integer_values(index), integer_values(kind.indices)
        names, types = text_values(chain.dictionary), text_values(kind.dictionary)
        mine = np.array([only is None or name == only for name in names])[codes]
        summed = np.flatnonzero(np.array([name in SUMMED for name in types])[kinds] & mine)
        written = [canonical_bytes(name) for name in names]
        places = zip(codes[summed].tolist(), indexes[summed].tolist(), strict=True)
        values = zip(utf8_values(previous, summed), byte_values(body, summed), text_values(digest, summed), strict=True)
        for (code, at), (before, raw, stored) in zip(places, values, strict=True):
            matches = digest_bytes(LINK_BYTES % (written[code], at, before, raw)) == stored
            events[names[code]].append((at, raw, matches))
        steps = np.bincount(codes[np.array([name == "step" for name in types])[kinds]], minlength=len(names)).tolist()
        order = np.lexsort((indexes, codes))
        last = order[np.append(np.flatnonzero(np.diff(codes[order])), len(order) - 1)]
        last = last[mine[last]]
        heads = text_values(digest, last)
    except (ValueError, IndexError) as exc:
        raise StoreError(f"events.parquet cannot be read: {exc}") from exc
    for code, length, head in zip(codes[last].tolist(), (indexes[last] + 1).tolist(), heads, strict=True):
        name, more = names[code], steps[code]
        known = tails.get(name)
        if known is None:
            tails[name] = (length, head, more)
        else:  # a chain whose events are in several row groups
            tails[name] = (*(known[:2] if known[0] >= length else (length, head)), known[2] + more)


def _check_chain(facts: _ChainFacts, records: Iterable[_Record]) -> _CheckedChain:
    """Folds one chain and compares it with its stored row."""
    run, chain, tail, stored = facts
    builder, holds, recorded_in = RowBuilder(run, chain), True, run
    verdicts = []
    for index, raw, matches in records:
        body = decode_raw(chain, index, raw)
        holds = holds and matches
        builder.add(body)
        if isinstance(body, VerdictAdded):
            verdicts.append(summary_of(chain, body.verdict))
        elif isinstance(body, AttemptStarted):
            recorded_in = body.run
    builder.fields["length"], builder.fields["head"], builder.fields["steps"] = tail
    row = builder.row()
    fields = _differences(row, stored)
    moved = () if recorded_in == run or "run" in fields else ("run",)
    return _CheckedChain(row, (*moved, *fields, *(() if holds else ("events",))), verdicts)


def _differences(actual: AttemptRow, stored: bytes | None) -> tuple[str, ...]:
    """Returns the fields in which the stored row differs; a field that an older version did not write does not
    count."""
    if stored is None:
        return ("missing row",)
    try:
        if _ROW.decode(stored) == actual:
            return ()
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass  # an older version's row, or a damaged one
    try:
        known = msgspec.json.decode(stored)
    except (msgspec.DecodeError, ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        return ("unreadable row",)
    fields = msgspec.to_builtins(actual)
    stored_fields = ((name, value) for name, value in known.items() if name in _DEFAULTS)
    return tuple(name for name, value in stored_fields if fields.get(name, _DEFAULTS[name]) != value)


_ROW = msgspec.json.Decoder(AttemptRow)
_DEFAULTS = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(AttemptRow)
}
