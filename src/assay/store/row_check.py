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

from assay.gc_tuning import raised_thresholds
from assay.records import AttemptStarted, VerdictAdded

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
    import pyarrow.compute as pc

    return table if chain is None else table.filter(pc.equal(table["chain"], chain))


def _sum_events(table: Any, events: dict[str, list[_Record]], tails: dict[str, tuple[int, str, int]]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    summed = table.filter(pc.is_in(table["type"], pa.array(SUMMED)))
    columns = (summed[name].to_pylist() for name in ("chain", "index", "previous", "body", "digest"))
    for record in zip(*columns, strict=True):
        events[record[0]].append(record)
    plain = zip(*(table[name].to_pylist() for name in ("chain", "index", "digest", "type")), strict=True)
    for chain, index, digest, kind in plain:
        length, head, steps = tails.get(chain, (0, "", 0))
        head = digest if index + 1 > length else head
        tails[chain] = (max(length, index + 1), head, steps + (kind == "step"))


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
    fields = _differences(builder, inputs.stored.pop(chain, None))
    if fields or not holds or recorded_in != run:
        moved = () if recorded_in == run or "run" in fields else ("run",)
        found.differing[chain] = (*moved, *fields, *(() if holds else ("events",)))
    found.rows.append(builder.row())


def _differences(built: RowBuilder, stored: bytes | None) -> tuple[str, ...]:
    """Returns the fields in which the stored row differs; a field that an older version did not write does not
    count."""
    if stored is None:
        return ("missing row",)
    if built.encode() == stored:
        return ()
    try:
        known = msgspec.json.decode(stored)
    except (msgspec.DecodeError, ValueError, RecursionError):
        known = None
    actual = msgspec.to_builtins(built.row())
    if not isinstance(known, dict):
        return ("unreadable row",)
    stored_fields = ((name, value) for name, value in known.items() if name in _DEFAULTS)
    return tuple(name for name, value in stored_fields if actual.get(name, _DEFAULTS[name]) != value)


_DEFAULTS = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(AttemptRow)
}
