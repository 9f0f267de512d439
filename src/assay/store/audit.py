"""Recomputes everything that a stored run claims, and reports each mismatch.

Covered: every chain from its stored bytes, the summary row of each chain against the fold of its events, the query
tables against the events, the files, counts and the head in `seal.json` and its own digest, the manifest against its
copy, addenda from the sealed head on, the database by SQLite's own check, and the bytes of every blob that an event
refers to. A change of any one byte of these is found and located, also where no reader would notice.

Not covered, because chains have no key: an attacker who recomputes digests and rows can rewrite a chain from any event
on, truncate or extend it, and add or remove whole chains. Receipts (`receipt`) detect that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain as chained
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.records import AttemptStarted

from .addenda import addendum_links
from .blob_check import BlobReferences
from .byte_check import LiveContent, check_addenda_bytes, check_manifest, check_sealed_bytes
from .chain import Link, StoreProblem, decode_body, decode_event, heads_digest, verify_links
from .layout import Layout
from .live_tables import check_live_tables
from .parquet import is_same_row
from .rows import AttemptRow, RowBuilder
from .run import RunStore
from .sealed import SealedRun
from .tables import TABLES, event_rows, trajectory_row
from .text_index import check_index


def audit(root: Path, run: str, *, chains: bool = True, blobs: bool = True) -> tuple[StoreProblem, ...]:
    """Returns every problem of a run; empty where all of it holds.

    `chains` recomputes the chains, and compares rows, tables, seal, manifest and addenda with them; `blobs` looks for
    every blob that an event refers to, and recomputes its digest.

    Raises:
        StoreError: The run is not here or cannot be opened at all.
    """
    Layout(root, run).require()
    try:
        with RunStore.open(root, run) as store, store.snapshot():
            references = BlobReferences(store) if blobs else None
            parts = (_sealed_parts if store.is_sealed else _live_parts)(store, references) if chains else []
            if references is not None:
                parts.append(references.problems(already_read=chains))
            return tuple(chained.from_iterable(_catch_store_errors(run, part) for part in parts))
    except StoreError as exc:  # it cannot be opened at all
        return (StoreProblem(run, None, None, str(exc)),)


def _live_parts(store: RunStore, references: BlobReferences | None) -> list[Iterator[StoreProblem]]:
    content = LiveContent(store)
    parts = [
        check_manifest(store.layout, content),
        _check_live_chains(store.run, content, references),
        content.check_database(),
        _check_types(store),
    ]
    return [*parts, check_live_tables(store)]


def _sealed_parts(store: RunStore, references: BlobReferences | None) -> list[Iterator[StoreProblem]]:
    sealed, layout = store.sealed, store.layout
    links = sealed.links() if references is None else references.watch(sealed.links())
    return [
        check_sealed_bytes(layout, sealed),
        chain_problems(store.run, links, sealed.attempts(), integrity=sealed.seal.schema_version > 1),
        _check_seal(layout, sealed),
        check_index(sealed, store.run),
        check_addenda_bytes(layout),
        _check_addenda(layout, sealed),
    ]


def chain_problems(
    run: str, links: Iterable[Link], rows: Iterable[AttemptRow], *, integrity: bool = True
) -> Iterator[StoreProblem]:
    """Yields the problems of all chains of a run; the links of each chain are consecutive.

    `integrity`: the rows have that field; those of schema 1 do not.
    """
    rows_by_chain: dict[str, AttemptRow] = {}
    for one in rows:
        if one.chain in rows_by_chain:
            yield StoreProblem(run, one.chain, None, "it has two summary rows")
        rows_by_chain[one.chain] = one
    for name, group in groupby(links, key=attrgetter("chain")):
        row = rows_by_chain.pop(name, None)
        if row is None:
            yield StoreProblem(run, name, None, "it has events and no summary row, or is stored in two places")
        folded, unreadable = RowBuilder(run, name), list[StoreProblem]()
        broken = verify_links(_fold_links(group, folded, unreadable), row.head if row else None)
        if broken is not None:
            yield StoreProblem(run, name, broken.at, f"{broken.problem}: {broken.detail}")
        elif unreadable:
            yield unreadable[0]
        elif row is not None and (expected := _expected_row(folded, integrity=integrity)) != row:
            fields = _differing_fields(expected, row)
            yield StoreProblem(run, name, None, f"its summary row differs from its events in {fields}")
    for name in rows_by_chain:
        yield StoreProblem(run, name, None, "it has a summary row and no events")


def _expected_row(folded: RowBuilder, *, integrity: bool) -> AttemptRow:
    row = folded.row()
    return row if integrity else msgspec.structs.replace(row, integrity=None)


def _fold_links(links: Iterable[Link], folded: RowBuilder, unreadable: list[StoreProblem]) -> Iterator[Link]:
    """Passes links on and folds their events into a row."""
    for stored in links:
        run: str = folded.fields["run"]
        try:
            body = decode_body(stored)
            folded.add(body)
        except StoreError as exc:
            unreadable.append(StoreProblem(run, stored.chain, stored.index, str(exc)))
        else:
            if isinstance(body, AttemptStarted) and body.run != run:
                unreadable.append(StoreProblem(run, stored.chain, stored.index, f"it was recorded in run {body.run!r}"))
        folded.fields["head"], folded.fields["length"] = stored.digest, folded.fields["length"] + 1
        yield stored


def _differing_fields(left: msgspec.Struct, right: msgspec.Struct) -> str:
    names = left.__struct_fields__
    return ", ".join(n for n in names if getattr(left, n) != getattr(right, n))


def _catch_store_errors(run: str, part: Iterator[StoreProblem]) -> Iterator[StoreProblem]:
    """Turns a `StoreError` of a check into a problem, so that the other checks still run."""
    try:
        yield from part
    except StoreError as exc:
        yield StoreProblem(run, None, None, str(exc))


def _check_live_chains(run: str, content: LiveContent, references: BlobReferences | None) -> Iterator[StoreProblem]:
    links = content.links() if references is None else references.watch(content.links())
    found = list(chain_problems(run, links, content.attempts()))
    yield from (*content.problems, *found)


def _check_types(store: RunStore) -> Iterator[StoreProblem]:
    found = store.live.find_mistyped()
    if found is not None:
        yield StoreProblem(store.run, *found, "the column `type` differs from the event's type, so queries may miss it")


def _check_seal(layout: Layout, sealed: SealedRun) -> Iterator[StoreProblem]:
    run, seal, rows = layout.run, sealed.seal, sealed.attempts()
    if (seal.chains, seal.events) != (len(rows), sealed.counts()["events"]):
        yield StoreProblem(run, None, None, "seal.json has wrong counts of chains or events")
    if heads_digest((r.chain, r.head, r.length) for r in rows) != seal.head:
        yield StoreProblem(run, None, None, "the head in seal.json differs from the heads of the chains")
    yield from _check_tables(sealed, run, {r.chain: r for r in rows})


def _check_tables(sealed: SealedRun, run: str, rows: dict[str, AttemptRow]) -> Iterator[StoreProblem]:
    """Requires that the tables hold exactly the rows that follow from the events, in the same order."""
    actual = {name: sealed.rows(name) for name in TABLES}
    for name in sorted(rows):
        if not is_same_row(next(actual["trajectories"], None), trajectory_row(rows[name])):
            yield StoreProblem(run, name, None, "sealed/trajectories.parquet differs from its own summary row")
            break
    for stored in sealed.links():
        if stored.chain not in rows:
            return  # the chains have said so
        for table, record in event_rows(rows[stored.chain], decode_event(stored), stored.body):
            if table in actual and not is_same_row(next(actual[table], None), record):
                yield StoreProblem(run, stored.chain, stored.index, f"sealed/{table}.parquet differs from the event")
                actual.pop(table)
    for table, rest in actual.items():
        if next(rest, None) is not None:
            yield StoreProblem(run, None, None, f"sealed/{table}.parquet has more rows than the events give")


def _check_addenda(layout: Layout, sealed: SealedRun) -> Iterator[StoreProblem]:
    previous = sealed.seal.head
    for expected, segment in enumerate(addendum_links(layout)):
        if segment.number != expected:
            yield StoreProblem(layout.run, f"addendum.{expected}", None, "it is missing, and later ones exist")
        broken = verify_links(segment.links, segment.head, previous)
        wrong = next((s for s in segment.links if s.chain != f"addendum.{segment.number}"), None)
        if wrong is not None:
            yield StoreProblem(layout.run, wrong.chain, wrong.index, f"it is stored in addenda/{segment.number}.json")
        if broken is not None:
            yield StoreProblem(layout.run, broken.chain, broken.at, f"{broken.problem}: {broken.detail}")
            return
        previous = segment.head
