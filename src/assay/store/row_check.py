"""Compares summary rows with their chains, each time that rows are shown or counted.

A row is a summary; the chain is the record. A writer of the SQLite file or of `trajectories.parquet` could turn a fail
into a pass in a row alone. So rows are folded from the chain's own events, and differing fields are reported. Only the
few events that a row depends on are read, and their digests are recomputed.

Not for the chain as a whole: `audit` recomputes every link.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.gc_tuning import raised_thresholds
from assay.records import AttemptStarted, VerdictAdded

from .arrow_arrays import byte_values, equals_text, index_array, integer_values, text_array, text_values, true_positions
from .chain import check_record
from .database import connect, store_errors
from .layout import Layout
from .rows import AttemptRow, RowBuilder
from .run import RunStore
from .sealed import SealedRun, VerdictSummary, summary_of

SUMMED = ("attempt_started", "attempt_ended", "verdict", "note")
"""Types of the events that a row depends on, beside the number of steps."""


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

    Raises:
        StoreError: The run is damaged.
    """
    found = CheckedRows([], {}, [])
    read = _read_sealed if store.is_sealed else _read_live
    # Rows are many small objects without cycles.
    with raised_thresholds(100_000, 50, 100), read(store.layout, chain) as inputs:
        for name, records in inputs.events:
            _check_row(store.run, name, records, inputs, found)
        for name in list(inputs.tails):
            _check_row(store.run, name, (), inputs, found)
    differing = found.differing | dict.fromkeys(inputs.stored, ("missing events",))
    return CheckedRows(
        sorted(found.rows, key=lambda row: (row.started or 0.0, row.chain)),
        dict(sorted(differing.items())),
        found.verdicts,
    )


_Record = tuple[str, int, str, bytes, str]
"""Chain, index, previous digest, body and digest of an event."""


class _RowInputs(NamedTuple):
    """The data that rows are folded from."""

    events: Iterable[tuple[str, Iterable[_Record]]]
    """Those of `SUMMED` types in order, by chain."""
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
        steps = "count(*) FILTER (WHERE type = 'step')"
        query = f"SELECT chain, max(idx) + 1, digest, {steps} FROM events WHERE 1{one} GROUP BY chain"
        tails = {row[0]: row[1:] for row in connection.execute(query, arguments)}
        wanted = f"type IN ({types}){one}"
        query = f"SELECT chain, idx, previous, body, digest FROM events WHERE {wanted} ORDER BY chain, idx"
        yield _RowInputs(groupby(connection.execute(query, arguments), key=itemgetter(0)), stored, tails)
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def _read_sealed(layout: Layout, only: str | None) -> Iterator[_RowInputs]:
    events: dict[str, list[_Record]] = defaultdict(list)
    stored: dict[str, bytes] = {}
    tails: dict[str, tuple[int, str, int]] = {}
    with contextlib.closing(SealedRun(layout.sealed)) as sealed:
        for group in range(sealed.group_count("trajectories")):
            table = _filter_chain(sealed.columns("trajectories", group, ["chain", "row"]), only)
            stored |= dict(zip(table["chain"].to_pylist(), table["row"].to_pylist(), strict=True))
        for group in range(sealed.group_count("events")):
            table = sealed.columns("events", group, ["chain", "index", "previous", "body", "digest", "type"])
            _sum_events(_filter_chain(table, only), events, tails)
    for records in events.values():
        records.sort(key=itemgetter(1))
    yield _RowInputs(events.items(), stored, tails)


def _filter_chain(table: Any, chain: str | None) -> Any:
    return table if chain is None else table.filter(equals_text(table["chain"], chain))


def _sum_events(table: Any, events: dict[str, list[_Record]], tails: dict[str, tuple[int, str, int]]) -> None:
    """Adds the records and the tails of a row group. Only values of `SUMMED` events and of the last event of a chain
    become Python objects.

    Raises:
        StoreError: A value is missing.
    """
    import numpy as np
    import pyarrow.compute as pc

    table = table.combine_chunks()
    if not len(table):
        return
    chains = table["chain"].chunk(0).dictionary_encode()
    summed = true_positions(pc.is_in(table["type"].chunk(0), value_set=text_array(SUMMED)))
    records = table.select(["previous", "body", "digest"]).take(index_array(summed)).combine_chunks()
    try:
        codes, indexes = integer_values(chains.indices), integer_values(table["index"].chunk(0))
        names = text_values(chains.dictionary)
        if len(summed):
            previous, bodies, digests = (records.column(place).chunk(0) for place in range(3))
            texts = text_values(previous), byte_values(bodies), text_values(digests)
            for code, index, *others in zip(codes[summed].tolist(), indexes[summed].tolist(), *texts, strict=True):
                events[names[code]].append((names[code], index, *others))
    except ValueError as exc:
        raise StoreError(f"events.parquet cannot be read: {exc}") from exc
    steps = np.bincount(
        codes[true_positions(equals_text(table["type"].chunk(0), "step"))], minlength=len(names)
    ).tolist()
    order = np.lexsort((indexes, codes))
    last = order[np.append(np.flatnonzero(np.diff(codes[order])), len(order) - 1)]
    heads, lengths = table["digest"].take(index_array(last)).to_pylist(), (indexes[last] + 1).tolist()
    for name, length, head, more in zip(names, lengths, heads, steps, strict=True):
        known = tails.get(name)
        if known is None:
            tails[name] = (length, head, more)
        else:  # a chain whose events are in several row groups
            tails[name] = (*(known[:2] if known[0] >= length else (length, head)), known[2] + more)


def _check_row(run: str, chain: str, records: Iterable[_Record], inputs: _RowInputs, found: CheckedRows) -> None:
    """Folds one chain, compares it with its stored row, and adds both results to `found`."""
    builder, holds, recorded_in = RowBuilder(run, chain), True, run
    for record in records:
        body, matches = check_record(*record)
        holds = holds and matches
        builder.add(body)
        if isinstance(body, VerdictAdded):
            found.verdicts.append(summary_of(chain, body.verdict))
        elif isinstance(body, AttemptStarted):
            recorded_in = body.run
    builder.fields["length"], builder.fields["head"], builder.fields["steps"] = inputs.tails.pop(chain)
    row = builder.row()
    fields = _differences(row, inputs.stored.pop(chain, None))
    if fields or not holds or recorded_in != run:
        moved = () if recorded_in == run or "run" in fields else ("run",)
        found.differing[chain] = (*moved, *fields, *(() if holds else ("events",)))
    found.rows.append(row)


def _differences(actual: AttemptRow, stored: bytes | None) -> tuple[str, ...]:
    """Returns the fields in which the stored row differs; a field that an older version did not write does not
    count."""
    if stored is None:
        return ("missing row",)
    with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
        if _ROW.decode(stored) == actual:
            return ()
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
