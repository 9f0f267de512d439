"""A run: append while it is live; read it live or sealed through the same calls.

Invariant: an append that returned is committed with its links; a failed append leaves the chain unchanged.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from assay.errors import StoreError, UserError
from assay.records import (
    GENESIS,
    SCHEMA_VERSION,
    AttemptStarted,
    Body,
    Event,
    Noted,
    Trajectory,
    canonical_bytes,
    digest_bytes,
)

from .assemble import assemble
from .blobs import BlobStore
from .chain import Link, decode_event, decode_raw, link_digests
from .database import WriterLock, connect, speed_up_spool, store_errors
from .encoding import EncodedBody, encode
from .group_commit import GroupCommit
from .layout import Layout, require_no_file
from .live_run import LiveRun
from .rows import AttemptRow, RowBuilder
from .sealed import SealedRun, VerdictSummary
from .spool import EventRow, UnwrittenRows

_INSERT = "INSERT INTO events (chain, idx, type, body, previous, digest) VALUES (?, ?, ?, ?, ?, ?)"
_KNOWN = "SELECT chain FROM attempts WHERE chain IN (SELECT value FROM json_each(?))"
_UPSERT = "INSERT INTO attempts VALUES (?, ?) ON CONFLICT (chain) DO UPDATE SET row = excluded.row"

OnCommitted = Callable[[Body, bytes, str], None]
"""Takes a committed event, as reading it gives it, its exact bytes and its digest."""


class CheckedChain(NamedTuple):
    """A chain of another store that was recomputed, as the rows of this one."""

    chain: str
    rows: list[EventRow]
    sum: bytes
    """Its summary row."""


class _StoredRun(Protocol):
    """The interface that live and sealed runs share; `RunStore` documents each method."""

    def attempts(self) -> list[AttemptRow]: ...
    def row(self, chain: str) -> AttemptRow | None: ...
    def near(self, attempt: str) -> list[AttemptRow]: ...
    def of_task(self, task: str) -> list[AttemptRow]: ...
    def links(self, chain: str | None = None, containing: bytes = b"") -> Iterator[Link]: ...
    def part(self, chain: str, start: int, stop: int) -> Iterator[Link]: ...
    def ended_at(self) -> dict[str, int]: ...
    def judged(self, chains: Collection[str] | None = None) -> Iterator[VerdictSummary]: ...
    def snapshot(self) -> contextlib.AbstractContextManager[None]: ...
    def manifest(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


class RunStore:
    """One run of a store. Use as a context manager, or call `close`."""

    def __init__(
        self,
        layout: Layout,
        connection: sqlite3.Connection | None,
        lock: WriterLock | None,
        *,
        is_spool: bool = False,
    ) -> None:
        self.layout = layout
        self.run = layout.run
        self.blobs = BlobStore(layout.blobs.root, is_own=True) if is_spool else layout.blobs
        self._form: _StoredRun = SealedRun(layout.sealed) if connection is None else LiveRun(layout, connection)
        self._lock = lock
        self._builders: dict[str, RowBuilder] = {}
        self._watchers: dict[str, list[OnCommitted]] = {}
        self.is_spool = is_spool
        """True if each chain is kept elsewhere when it ends: until then nothing but memory and reading needs it."""
        self._unwritten = UnwrittenRows() if is_spool else None
        shares = self._unwritten is None  # a spool makes no transaction when it commits: nothing is shared
        self.group_commit = GroupCommit(self.append_all, lambda: shares and len(self._builders) > 1)

    @property
    def is_sealed(self) -> bool:
        """Returns whether the run was opened in its sealed form."""
        return isinstance(self._form, SealedRun)

    @classmethod
    def create(cls, root: Path, run: str, manifest: dict[str, Any], *, spool: bool = False) -> Self:
        """Creates a run, in a new store if need be, and becomes its writer. The manifest is stored readable without
        Assay.

        Args:
            root: The store.
            run: Name of the run.
            manifest: How it is made.
            spool: The store is new, and of this object alone; the caller keeps each chain elsewhere when it ends, and
                begins a trial again whose chain has not ended when the process dies: commits need not survive that,
                and wait in memory for `release`.

        Raises:
            UserError: A run of that name exists, or the name cannot be one.
            StoreError: It cannot be written.
        """
        layout = Layout(root, run)
        whole = {"run": run, "schema_version": SCHEMA_VERSION, "created": time.time(), **manifest}
        _refuse_existing(layout)
        with store_errors(layout.folder):
            require_no_file(root)
            layout.folder.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(layout.lock)
        try:
            _refuse_existing(layout)  # it may have been made while the lock was waited for
            connection = _create_files(layout, canonical_bytes(whole))
            if spool:
                with store_errors(layout.sqlite):
                    speed_up_spool(connection)
            return cls(layout, connection, lock, is_spool=spool)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, root: Path, run: str, *, write: bool = False) -> Self:
        """Opens a run. A live run takes any number of readers and one writer; a sealed run takes readers only.

        Raises:
            StoreError: It is missing, damaged, being written by another process, or sealed.
        """
        layout = Layout(root, run)
        layout.require()
        if layout.is_sealed:
            if write:
                _refuse_sealed(layout)
            return cls(layout, None, None)
        lock = WriterLock(layout.lock) if write else None
        try:
            if write:
                _refuse_sealed(layout)  # it may have been sealed while the lock was waited for
            return cls(layout, connect(layout.sqlite, write=write), lock)
        except BaseException:
            if lock is not None:
                lock.release()
            if write or not layout.seal.is_file():
                raise
            return cls(layout, None, None)  # it was sealed at this moment

    def watch(self, chain: str, on_committed: OnCommitted) -> None:
        """Calls a function with each event of a chain once it is committed, in order, up to the one that ends it."""
        self._watchers.setdefault(chain, []).append(on_committed)

    def append(self, chain: str, bodies: Sequence[Body | EncodedBody]) -> str:
        """Appends events to a chain in one transaction and returns its new head.

        Raises:
            StoreError: Nothing was appended (a full disk, for example; the call may be repeated), or a body is not
                valid JSON: NaN, an infinity, half a surrogate pair.
        """
        (head,) = self.append_all([(chain, bodies)])
        return head

    def append_all(self, batch: Sequence[tuple[str, Sequence[Body | EncodedBody]]]) -> list[str]:
        """Appends events to several chains, each named once, in one transaction; returns their new heads.

        Raises:
            StoreError: As `append`; nothing was appended to any of them.
        """
        self._require_writer()
        if self._unwritten is not None and self._unwritten.is_full:
            self._write_spooled()
        builders = [self._builders.get(chain) or self._builder(chain) for chain, _ in batch]
        builders = [builder.copy() for builder in builders]  # the old ones stand until all is committed
        added: list[tuple[RowBuilder, list[EventRow]]] = []
        watched: list[tuple[list[OnCommitted], list[EncodedBody], list[EventRow]]] = []
        for (chain, bodies), builder in zip(batch, builders, strict=True):
            encoded = [encode(body, chain) for body in bodies]
            linked = _link_events(chain, encoded, builder)
            if linked:
                added.append((builder, linked))
            if chain in self._watchers:
                watched.append((self._watchers[chain], encoded, linked))
        self._add_rows(added)
        for (chain, _), builder in zip(batch, builders, strict=True):
            self._builders[chain] = builder
            if builder.fields["finished"] is not None:
                self._builders.pop(chain, None)  # a finished chain takes no memory
                self._watchers.pop(chain, None)
            elif builder.fields["interrupted"]:
                self._watchers.pop(chain, None)
        for watchers, encoded, linked in watched:
            for one, row in zip(encoded, linked, strict=True):
                for on_committed in watchers:
                    on_committed(one.body, one.raw, row[-1])
        return [builder.fields["head"] or GENESIS for builder in builders]

    def _add_rows(self, added: Sequence[tuple[RowBuilder, list[EventRow]]]) -> None:
        if self._unwritten is not None:
            for builder, rows in added:
                self._unwritten.add(builder, rows)
        elif added:
            sums = [(builder.fields["chain"], builder.encode()) for builder, _ in added]
            self._commit([row for _, rows in added for row in rows], sums)

    def _write_spooled(self) -> None:
        """Writes what a spool has in memory alone. Raises `StoreError`; it stays there."""
        if self._unwritten:
            self._commit(self._unwritten.events(), self._unwritten.summaries())
            self._unwritten.clear()

    def release(self, chain: str) -> None:
        """Takes that a spool's chain is kept elsewhere, and not read here any more; drops what is in memory alone."""
        if self._unwritten is not None:
            self._unwritten.forget(chain)
            self._builders.pop(chain, None)
            self._watchers.pop(chain, None)

    def add_chain(
        self, chain: str, events: Sequence[bytes], head: str, check: Callable[[AttemptRow], None] = lambda _: None
    ) -> None:
        """Adds a chain that another store recorded, byte for byte, in one transaction. Raises as `check_chain` and
        `add_checked`."""
        self.add_checked([self.check_chain(chain, events, head, check)])

    def check_chain(
        self,
        chain: str,
        events: Sequence[bytes],
        head: str,
        check: Callable[[AttemptRow], None] = lambda _: None,
        *,
        is_own: bool = False,
    ) -> CheckedChain:
        """Recomputes a chain that another store recorded, for `add_checked`; `check` may raise to prevent it.

        Raises:
            StoreError: The events are damaged or do not give its head, or do not begin an attempt of this run though it
                `is_own`.
        """
        self._require_writer()
        builder = RowBuilder(self.run, chain)
        encoded = [EncodedBody(raw, decode_raw(chain, index, raw)) for index, raw in enumerate(events)]
        started = encoded[0].body if encoded else None
        if is_own and not (isinstance(started, AttemptStarted) and started.run == self.run):
            raise StoreError("its chain is not of this run")
        rows = _link_events(chain, encoded, builder)
        if builder.fields["head"] != head:
            raise StoreError(f"the events of chain {chain} do not give its head: they were changed")
        check(builder.row())
        return CheckedChain(chain, rows, builder.encode())

    def add_checked(self, chains: Sequence[CheckedChain]) -> None:
        """Adds chains, each named once, in one transaction. Raises `StoreError`, also where one exists; nothing was
        added then."""
        self._require_writer()
        names = msgspec.json.encode([one.chain for one in chains]).decode()
        with store_errors(self.layout.sqlite):
            known = self.live.connection.execute(_KNOWN, (names,)).fetchone()
        if known is not None:
            raise StoreError(f"run {self.run!r} has a chain {known[0]!r} already")
        self._commit([row for one in chains for row in one.rows], [(one.chain, one.sum) for one in chains])

    def _commit(self, rows: list[EventRow], sums: list[tuple[str, bytes]]) -> None:
        with store_errors(self.layout.sqlite):
            connection = self._live_form().connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_INSERT, rows)
                connection.executemany(_UPSERT, sums)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled back already
                    connection.execute("ROLLBACK")
                raise

    def _builder(self, chain: str) -> RowBuilder:
        builder = self.live.fold(chain) if self.has_chain(chain) else RowBuilder(self.run, chain)
        self._builders[chain] = builder
        return builder

    def has_chain(self, chain: str) -> bool:
        """Returns whether events of a chain are stored here. Raises `StoreError` for a sealed run."""
        if self._unwritten is not None and (chain in self._unwritten or self._unwritten.is_file_empty):
            return chain in self._unwritten
        return self._live_form().has_chain(chain)

    def mark_interrupted(self, chain: str) -> None:
        """Marks a chain as interrupted; its events stay."""
        self.append(chain, [Noted("interrupted", {}, time.time())])
        self._builders.pop(chain, None)

    def attempts(self) -> list[AttemptRow]:
        """Returns one row a chain, in the order in which the chains began."""
        return self._stored.attempts()

    def interrupted(self) -> list[str]:
        """Returns the chains that have not ended and are not marked as interrupted."""
        return [r.chain for r in self.attempts() if r.finished is None and not r.interrupted]

    def row(self, chain: str) -> AttemptRow | None:
        """Returns the row of one chain without reading the others; or None."""
        return self._stored.row(chain)

    def attempts_at(self, task: str, task_digest: str | None = None) -> list[AttemptRow]:
        """Returns the rows of a task, by default of all its versions, in the order in which the chains began."""
        rows = (row for row in self._stored.of_task(task) if row.task == task)
        return [row for row in rows if task_digest is None or row.task_digest == task_digest]

    def events(self, chain: str) -> Iterator[Event]:
        return map(decode_event, self.links(chain))

    def links(self, chain: str | None = None, containing: bytes = b"") -> Iterator[Link]:
        """Yields the stored events of one chain, or of all chains by name; those whose bodies contain some bytes."""
        return self._stored.links(chain, containing)

    def part(self, chain: str, start: int, stop: int) -> Iterator[Link]:
        """Yields the events of one chain with `start <= index < stop`, in order.

        Only these are read; of a sealed run, the row groups that hold them.
        """
        return self._stored.part(chain, start, stop)

    def ended_at(self) -> dict[str, int]:
        """Returns chain to the index of its `AttemptEnded`; chains that never ended are left out."""
        return self._stored.ended_at()

    def judged(self, chains: Collection[str] | None = None) -> Iterator[VerdictSummary]:
        """Yields all verdicts of some chains or of all, chain by chain in the order in which they were given."""
        return self._stored.judged(chains)

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Opens a context in which all reads see one moment, whatever a writer does meanwhile."""
        return self._stored.snapshot()

    def trajectory(self, chain: str) -> Trajectory:
        """Returns the trajectory of one trial. Raises `StoreError` without one."""
        events = list(self.events(chain))
        if not events:
            raise StoreError(f"run {self.run!r} has no chain {chain!r}")
        return assemble(events)

    def trajectories(self) -> Iterator[Trajectory]:
        """Yields every trial's trajectory."""
        for row in self.attempts():
            yield self.trajectory(row.chain)

    def find(self, attempt: str) -> AttemptRow:
        """Returns the deciding (else the newest) trial of an attempt, by its id, its chain, a unique beginning of it
        (the part before a slash may be left out), or task@number."""
        near = self._stored.near(attempt) or [r for r in self.attempts() if r.is_called(attempt)]
        names = sorted({r.attempt for r in near})
        if len(names) != 1:
            known = names or sorted({r.attempt for r in self.attempts()})
            some = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "") if known else "it has none"
            what = "is the beginning of several attempts" if names else "is not an attempt"
            raise UserError(f"{attempt!r} {what} of run {self.run}: {some}")
        return max(near, key=lambda r: (r.final, r.retry))

    def manifest(self) -> dict[str, Any]:
        return self._form.manifest()

    def close(self) -> None:
        """Closes the files and releases the lock. Idempotent. Raises `StoreError` for a spool with events that the full
        disk does not take."""
        try:
            if self._lock is not None:
                self._write_spooled()
        finally:
            self._form.close()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @property
    def live(self) -> LiveRun:
        """Returns the live form. Raises `StoreError` for a sealed run."""
        self._write_spooled()
        return self._live_form()

    @property
    def sealed(self) -> SealedRun:
        """Returns the sealed form. Raises `StoreError` for a live run."""
        if not isinstance(self._form, SealedRun):
            raise StoreError(f"run {self.run!r} is live")
        return self._form

    @property
    def _stored(self) -> _StoredRun:
        """Returns the form that has all that was appended."""
        self._write_spooled()
        return self._form

    def _live_form(self) -> LiveRun:
        if not isinstance(self._form, LiveRun):
            raise StoreError(f"run {self.run!r} is sealed")
        return self._form

    def _require_writer(self) -> None:
        if self._lock is None:
            raise StoreError(f"run {self.run!r} is open for reading only")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_sealed(layout: Layout) -> None:
    if layout.is_sealed:
        raise StoreError(f"run {layout.run!r} is sealed: it is finished, and nothing can be added to it")


def _refuse_existing(layout: Layout) -> None:
    if layout.sqlite.exists() or layout.is_sealed:
        raise UserError(
            f"run {layout.run!r} exists in {layout.root}: go on with `assay resume {layout.run}` (in Python: "
            "resume=True), or choose another name with --run (in Python: run=...)"
        )


def _create_files(layout: Layout, manifest: bytes) -> sqlite3.Connection:
    """Creates the files of a new run; removes them all where one cannot be written.

    The database is renamed when it is complete: a process killed here leaves no partial run.
    """
    aside = layout.sqlite.with_suffix(".making")
    try:
        with store_errors(layout.manifest):
            layout.manifest.write_bytes(msgspec.json.format(manifest, indent=2))
        _unlink(*layout.folder.glob(f"{aside.name}*"))  # SQLite's log of a killed one must not meet a new file
        made = connect(aside, create=True)
        with store_errors(layout.sqlite):
            pairs = [("run", layout.run), ("manifest", manifest.decode()), ("manifest_digest", digest_bytes(manifest))]
            made.executemany("INSERT INTO meta VALUES (?, ?)", pairs)
            made.close()  # checkpoints: all of it is in the one file now
            aside.replace(layout.sqlite)
        connection = connect(layout.sqlite, write=True)
    except BaseException:
        _unlink(*layout.live_files, layout.manifest, *layout.folder.glob(f"{aside.name}*"))
        raise
    return connection


def _unlink(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _link_events(chain: str, events: Sequence[EncodedBody], builder: RowBuilder) -> list[EventRow]:
    """Returns the rows that append events to the chain, and folds them into `builder`."""
    rows: list[EventRow] = []
    head, length = builder.fields["head"] or GENESIS, builder.fields["length"]
    for one, digest in zip(events, link_digests(chain, length, head, [one.raw for one in events]), strict=True):
        rows.append((chain, length, _type_name(type(one.body)), one.raw, head, digest))
        builder.add(one.body)
        head, length = digest, length + 1
    if rows:
        builder.fields["head"], builder.fields["length"] = head, length
    return rows


@cache
def _type_name(kind: type[Body]) -> str:
    return str(kind.__struct_config__.tag)
