"""Compares summary rows with their chains, each time that rows are shown or counted.

A row is a summary; the chain is the record. A writer of the SQLite file or of `trajectories.parquet` could turn a fail
into a pass in a row alone. So rows are folded from the chain's own events, and differing fields are reported. Only the
few events that a row depends on are read, and their digests are recomputed.

Not for the chain as a whole: `audit` recomputes every link.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import Any, NamedTuple

import msgspec

from assay.records import VerdictAdded

from .chain import Link, decode_event, link_digest
from .database import connect, store_errors
from .layout import Layout
from .rows import AttemptRow, RowBuilder
from .run import RunStore
from .sealed import SealedRun, VerdictSummary, summarize_verdict

SUMMED = ("attempt_started", "attempt_ended", "verdict", "note")
"""Types of the events that a row depends on, beside the number of steps."""


class CheckedRows(NamedTuple):
    """Rows folded from the chains' events, in the order in which the chains began."""

    rows: list[AttemptRow]
    differing: dict[str, tuple[str, ...]]
    """Chain to the fields in which its stored row, or (`events`) an event's digest, differs."""
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
    read = _read_sealed if store.is_sealed else _read_live
    stored, links, tails = read(store.layout, chain)
    rows: list[AttemptRow] = []
    differing: dict[str, tuple[str, ...]] = {}
    verdicts: list[VerdictSummary] = []
    for name in sorted({*tails, *stored}):
        if name not in tails:
            differing[name] = ("missing events",)
            continue
        built, judged, holds = _fold_row(store.run, name, links.get(name, []), tails[name])
        fields = _differences(built, stored.get(name))
        if fields or not holds:
            differing[name] = (*fields, *(() if holds else ("events",)))
        rows.append(built)
        verdicts += judged
    return CheckedRows(sorted(rows, key=lambda r: (r.started or 0.0, r.chain)), differing, verdicts)


class _RowInputs(NamedTuple):
    """The data that rows are folded from, by chain."""

    stored: dict[str, bytes]
    links: dict[str, list[Link]]
    """Those of `SUMMED` types, in any order."""
    tails: dict[str, tuple[int, str, int]]
    """Length, head, and number of steps."""


def _read_live(layout: Layout, only: str | None) -> _RowInputs:
    types = ", ".join(f"'{name}'" for name in SUMMED)
    one, arguments = ("", ()) if only is None else (" AND chain = ?", (only,))
    links: dict[str, list[Link]] = defaultdict(list)
    with contextlib.closing(connect(layout.sqlite, write=False)) as connection, store_errors(layout.sqlite):
        connection.execute("BEGIN")
        query = f"SELECT chain, idx, previous, body, digest FROM events WHERE type IN ({types}){one}"
        for chain, index, previous, body, digest in connection.execute(query, arguments):
            whole = body if isinstance(body, bytes) else str(body).encode()
            links[chain].append(Link(chain, index, previous, whole, digest))
        query = f"SELECT chain, max(idx) + 1, digest FROM events WHERE 1{one} GROUP BY chain"
        last = connection.execute(query, arguments).fetchall()
        query = f"SELECT chain, count(*) FROM events WHERE type = 'step'{one} GROUP BY chain"
        steps = dict(connection.execute(query, arguments))
        rows = connection.execute(f"SELECT chain, CAST(row AS BLOB) FROM attempts WHERE 1{one}", arguments).fetchall()
        connection.execute("ROLLBACK")
    return _RowInputs(dict(rows), links, {chain: (length, head, steps.get(chain, 0)) for chain, length, head in last})


def _read_sealed(layout: Layout, only: str | None) -> _RowInputs:
    stored: dict[str, bytes] = {}
    links: dict[str, list[Link]] = defaultdict(list)
    tails: dict[str, tuple[int, str, int]] = {}
    with contextlib.closing(SealedRun(layout.sealed)) as sealed:
        for group in range(sealed.group_count("trajectories")):
            table = _filter_chain(sealed.columns("trajectories", group, ["chain", "row"]), only)
            stored |= dict(zip(table["chain"].to_pylist(), table["row"].to_pylist(), strict=True))
        for group in range(sealed.group_count("events")):
            table = sealed.columns("events", group, ["chain", "index", "previous", "body", "digest", "type"])
            _sum_events(_filter_chain(table, only), links, tails)
    return _RowInputs(stored, links, tails)


def _filter_chain(table: Any, chain: str | None) -> Any:
    import pyarrow.compute as pc

    return table if chain is None else table.filter(pc.equal(table["chain"], chain))


def _sum_events(table: Any, links: dict[str, list[Link]], tails: dict[str, tuple[int, str, int]]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    for row in table.filter(pc.is_in(table["type"], pa.array(SUMMED))).drop_columns(["type"]).to_pylist():
        links[row["chain"]].append(Link(**row))
    plain = zip(*(table[name].to_pylist() for name in ("chain", "index", "digest", "type")), strict=True)
    for chain, index, digest, kind in plain:
        length, head, steps = tails.get(chain, (0, "", 0))
        head = digest if index + 1 > length else head
        tails[chain] = (max(length, index + 1), head, steps + (kind == "step"))


def _fold_row(
    run: str, chain: str, links: list[Link], tail: tuple[int, str, int]
) -> tuple[AttemptRow, list[VerdictSummary], bool]:
    """Folds one chain; returns its row, its verdicts, and whether all digests match."""
    builder, holds = RowBuilder(run, chain), True
    judged: list[VerdictSummary] = []
    for one in sorted(links, key=lambda link: link.index):
        holds = holds and link_digest(one.chain, one.index, one.previous, one.body) == one.digest
        body = decode_event(one).body
        builder.add(body)
        if isinstance(body, VerdictAdded):
            judged.append(summarize_verdict(chain, one.body))
    builder.fields["length"], builder.fields["head"], builder.fields["steps"] = tail
    return builder.row(), judged, holds


def _differences(built: AttemptRow, stored: bytes | None) -> tuple[str, ...]:
    """Returns the fields in which the stored row differs; a field that an older version did not write does not
    count."""
    if stored is None:
        return ("missing row",)
    try:
        known = msgspec.json.decode(stored)
    except (msgspec.DecodeError, ValueError, RecursionError):
        known = None
    actual = msgspec.to_builtins(built)
    if not isinstance(known, dict):
        return ("unreadable row",)
    stored_fields = ((name, value) for name, value in known.items() if name in _DEFAULTS)
    return tuple(name for name, value in stored_fields if actual.get(name, _DEFAULTS[name]) != value)


_DEFAULTS = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(AttemptRow)
}
