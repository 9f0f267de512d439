"""Recomputes everything that a stored run claims, and says where it does not hold.

Covered: every chain from its stored bytes, the summary row of each chain against the fold of its events, the query
tables of a sealed run against its events, the digests and the head in `seal.json`, addenda from the sealed head on,
and the bytes of every blob that an event refers to.

Not covered: a complete rewrite with new digests everywhere, or a tail that was cut together with its row. For that,
compare the head with one that was kept elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain as chained
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.records import AttemptEnded, Body, EvidenceAdded, StepTaken

from .addenda import addendum_links
from .chain import Link, event_of, heads_digest, verify_links
from .layout import Layout
from .rows import AttemptRow, RowBuilder
from .run import RunStore
from .sealed import SealedRun, file_digest
from .tables import TABLES, event_rows, trajectory_row

__all__ = ["Problem", "audit", "chain_problems"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that does not hold, and where."""

    run: str
    chain: str | None
    index: int | None
    """Of the event; None where it concerns more than one."""
    what: str

    def __str__(self) -> str:
        """One line for a person."""
        place = self.run if self.chain is None else f"{self.run}, chain {self.chain}"
        return f"{place if self.index is None else f'{place}, event {self.index}'}: {self.what}"


def audit(root: Path, run: str) -> tuple[Problem, ...]:
    """Every problem of a run; none where all of it holds.

    Raises:
        StoreError: The run is not here or cannot be opened at all.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        parts = [_chains(store), _blobs(store)]
        if store.layout.is_sealed:
            parts += [_sealed(store.layout), _addenda(store.layout)]
        return tuple(chained.from_iterable(_caught(run, part) for part in parts))


def chain_problems(run: str, links: Iterable[Link], rows: Iterable[AttemptRow]) -> Iterator[Problem]:
    """Problems of all chains of a run, whose links lie chain by chain."""
    known = {row.chain: row for row in rows}
    for name, group in groupby(links, key=attrgetter("chain")):
        row = known.pop(name, None)
        if row is None:
            yield Problem(run, name, None, "it has events and no summary row, or lies in two places")
        folded, unreadable = RowBuilder(run, name), list[Problem]()
        broken = verify_links(_folding(group, folded, unreadable), row.head if row else None)
        if broken is not None:
            yield Problem(run, name, broken.at, f"{broken.problem}: {broken.detail}")
        elif unreadable:
            yield unreadable[0]
        elif row is not None and folded.row() != row:
            fields = _difference(folded.row(), row)
            yield Problem(run, name, None, f"its summary row differs from its events in {fields}")
    for name in known:
        yield Problem(run, name, None, "it has a summary row and no events")


def _folding(links: Iterable[Link], folded: RowBuilder, unreadable: list[Problem]) -> Iterator[Link]:
    """Passes links on while their events are folded into a row."""
    for stored in links:
        try:
            folded.add(event_of(stored).body)
        except StoreError as exc:
            unreadable.append(Problem(folded.fields["run"], stored.chain, stored.index, str(exc)))
        folded.fields["head"], folded.fields["length"] = stored.digest, folded.fields["length"] + 1
        yield stored


def _difference(left: msgspec.Struct, right: msgspec.Struct) -> str:
    names = left.__struct_fields__
    return ", ".join(n for n in names if getattr(left, n) != getattr(right, n))


def _caught(run: str, part: Iterator[Problem]) -> Iterator[Problem]:
    """What is too damaged to be read on is a problem as well."""
    try:
        yield from part
    except StoreError as exc:
        yield Problem(run, None, None, str(exc))


def _chains(store: RunStore) -> Iterator[Problem]:
    yield from chain_problems(store.run, store.links(), store.attempts())


def _blobs(store: RunStore) -> Iterator[Problem]:
    checked: dict[str, str | None] = {}
    addenda = addendum_links(store.layout)
    for stored in chained(store.links(), *(segment.links for segment in addenda)):
        if b"blake3:" not in stored.body:
            continue
        for address in sorted(_references(event_of(stored).body)):
            if address not in checked:
                checked[address] = _blob_problem(store, address)
            if checked[address] is not None:
                yield Problem(store.run, stored.chain, stored.index, f"blob {address} {checked[address]}")


def _references(body: Body) -> set[str]:
    """The blobs that an event rests on. Other content addresses (of tasks, states, verifiers) need not be kept."""
    match body:
        case StepTaken(step):
            cuts = [cut for o in step.observations for cut in (o.truncated, o.stderr_truncated) if cut is not None]
            return {cut.digest for cut in cuts}
        case EvidenceAdded(evidence):
            return set(evidence.blobs)
        case AttemptEnded():
            return set(body.artifacts.values())
        case _:
            return set()


def _blob_problem(store: RunStore, address: str) -> str | None:
    try:
        path = store.blobs.path(address)
    except StoreError as exc:
        return str(exc)
    if not path.is_file():
        return "is missing"
    return None if store.blobs.intact(address) else "does not have the bytes of its address"


def _sealed(layout: Layout) -> Iterator[Problem]:
    run = layout.run
    with contextlib.closing(SealedRun(layout.sealed)) as sealed:
        seal, rows = sealed.seal, sealed.attempts()
        if seal.run != run:
            yield Problem(run, None, None, f"seal.json is of run {seal.run!r}")
        for name in TABLES:
            file = f"{name}.parquet"
            if file_digest(layout.sealed / file) != seal.files.get(file):
                yield Problem(run, None, None, f"sealed/{file} is not what was sealed: its digest differs")
        if heads_digest((r.chain, r.head, r.length) for r in rows) != seal.head:
            yield Problem(run, None, None, "the head in seal.json differs from the heads of the chains")
        yield from _tables(sealed, run, {r.chain: r for r in rows})


def _tables(sealed: SealedRun, run: str, rows: dict[str, AttemptRow]) -> Iterator[Problem]:
    """The tables must hold exactly what follows from the events, in the same order."""
    actual = {name: sealed.rows(name) for name in TABLES}
    for name in sorted(rows):
        if not _same(next(actual["trajectories"], None), trajectory_row(rows[name])):
            yield Problem(run, name, None, "sealed/trajectories.parquet differs from its own summary row")
            break
    for stored in sealed.links():
        if stored.chain not in rows:
            return  # the chains have said so
        for table, record in event_rows(rows[stored.chain], event_of(stored), stored.body):
            if table in actual and not _same(next(actual[table], None), record):
                yield Problem(
                    run, stored.chain, stored.index, f"sealed/{table}.parquet does not say what the event says"
                )
                actual.pop(table)
    for table, rest in actual.items():
        if next(rest, None) is not None:
            yield Problem(run, None, None, f"sealed/{table}.parquet has more rows than the events give")


def _same(actual: dict[str, object] | None, record: dict[str, object]) -> bool:
    if actual is None:
        return False
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in record.items()}
    return actual == plain or all(v == plain[k] or _unfit(plain[k]) for k, v in actual.items())


def _unfit(value: object) -> bool:
    """Whole numbers that a column cannot hold are null there."""
    many = value if isinstance(value, list) else [value]
    return any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in many)


def _addenda(layout: Layout) -> Iterator[Problem]:
    previous = SealedRun(layout.sealed).seal.head
    for expected, segment in enumerate(addendum_links(layout)):
        if segment.number != expected:
            yield Problem(layout.run, f"addendum.{expected}", None, "it is missing, and later ones are here")
        broken = verify_links(segment.links, segment.head, previous)
        wrong = next((s for s in segment.links if s.chain != f"addendum.{segment.number}"), None)
        if wrong is not None:
            yield Problem(layout.run, wrong.chain, wrong.index, f"it lies in addenda/{segment.number}.json")
        if broken is not None:
            yield Problem(layout.run, broken.chain, broken.at, f"{broken.problem}: {broken.detail}")
            return
        previous = segment.head
