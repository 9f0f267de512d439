"""The state of a world of services: one SQLite database in memory, with a journal of its net changes.

A database is opened on an image, the serialised initial state, which one process makes once for each set of tables,
seed and knobs. TEMP triggers write each change of a row into a TEMP table, so that the image stays clean. Folding the
journal (first old row, last new row, equal ones dropped) gives the net changes: a write that was undone leaves no
trace, and the order of writes does not matter.

The digest of a state covers the image and the set of net changes. The set is hashed incrementally, as the sum of one
number a row (AdHash: Bellare and Micciancio, Eurocrypt 1997), so that a call costs in proportion to what it
changed. The numbers have 2,048 bits: the generalised birthday attack on a sum of n bits takes about 2^(2 sqrt(n))
steps.

Making the triggers is nearly all that an open costs. A connection that nothing else holds is therefore kept when its
database is closed or dropped, and serves the next one on the same image: its net changes are undone, and it is taken
only if none is left.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

from assay.records import canonical_bytes, digest_bytes

from .schema import Table

_DECODE: Final = msgspec.json.Decoder(type=list[str | int | None]).decode
_BITS: Final = 2_048
_MODULUS: Final = 1 << _BITS
_MOST_KEPT: Final = 24
"""Connections that are kept for further databases, over all images."""
_MOST_KEPT_BYTES: Final = 64 << 20
_MOST_UNDONE: Final = 400
"""Changes of rows above which a connection is not used again: undoing them costs as much as a new one."""
_JOURNAL: Final = "CREATE TEMP TABLE journal (seq INTEGER PRIMARY KEY, tab INTEGER, key TEXT, old TEXT, new TEXT)"


class Image(NamedTuple):
    """An initial state."""

    data: bytes
    """The serialised database."""
    digest: str
    """Digest of its logical content: tables, columns and rows, not pages."""


class RowChange(msgspec.Struct, frozen=True):
    """Net change of one row since the initial state: `before` is None for an added row, `after` for a removed one."""

    table: str
    key: tuple[str | int, ...]
    before: dict[str, str | int | None] | None
    after: dict[str, str | int | None] | None

    def reversed(self) -> RowChange:
        """Returns the change that undoes this one."""
        return RowChange(self.table, self.key, self.after, self.before)


class _Fold:
    """Net changes by table number and key, as JSON texts of the rows."""

    __slots__ = ("_tables", "first", "last", "seen", "total")

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.first: dict[tuple[int, str], str | None] = {}
        self.last: dict[tuple[int, str], str | None] = {}
        self.seen = 0
        """Sequence number of the last entry of the journal that was folded."""
        self.total = 0
        """Sum over the net changes; 0 without any."""

    def add(self, entries: Iterable[tuple[int, int, str, str | None, str | None]]) -> None:
        for seq, tab, key, old, new in entries:
            place = (tab, key)
            self.seen = seq
            if place in self.last:
                self.total -= self._number(tab, key, self.last.pop(place))
            if self.first.setdefault(place, old) == new:
                del self.first[place]
            else:
                self.last[place] = new
                self.total += self._number(tab, key, new)
        self.total %= _MODULUS

    def _number(self, tab: int, key: str, row: str | None) -> int:
        content = canonical_bytes([self._tables[tab].sql_name, key, row])
        return int.from_bytes(blake3(content).digest(length=_BITS // 8), "big")


class Database:
    """A private, writable copy of an image.

    Args:
        tables: All tables, in the order in which the image was made.
        image: The initial state.
    """

    def __init__(self, tables: Sequence[Table], image: Image) -> None:
        self.tables = tuple(tables)
        self.image = image
        self._digest: str | None = None
        self.connection, self._fold = self._reused() or self._opened()

    def _opened(self) -> tuple[sqlite3.Connection, _Fold]:
        connection = _connect()
        connection.deserialize(self.image.data)
        connection.execute("PRAGMA foreign_keys = ON")
        statements = [_JOURNAL, *(text for number, table in enumerate(self.tables) for text in table.triggers(number))]
        connection.executescript(";".join(statements))
        return connection, _Fold(self.tables)

    def _reused(self) -> tuple[sqlite3.Connection, _Fold] | None:
        """Returns a kept connection in the initial state of this image; None if there is none."""
        kept = _KEPT.take(self.tables, self.image)
        if kept is None:
            return None
        self.connection, self._fold = kept.connection, kept.fold
        try:
            changes = self.changes() if self._folded().seen <= _MOST_UNDONE else None
            if changes is None:
                return None
            self.apply(change.reversed() for change in changes)
            if self._folded().first:
                return None
            self.connection.execute("DELETE FROM temp.journal")
        except (ValueError, sqlite3.Error):
            return None
        kept.connection = _CLOSED
        return self.connection, _Fold(self.tables)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs its body as one transaction: an exception, also of a constraint at its end, undoes all of it."""
        connection = self.connection
        connection.execute("BEGIN")
        try:
            yield
            connection.execute("COMMIT")
            self._digest = None
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Runs its body and undoes what it wrote. Raises `PermissionError` if it wrote anything."""
        connection = self.connection
        before = connection.total_changes  # `PRAGMA query_only` would prepare all statements again
        connection.execute("BEGIN")
        try:
            yield
        finally:
            has_written = connection.total_changes != before
            connection.execute("ROLLBACK" if has_written else "COMMIT")
        if has_written:
            raise PermissionError("a view has written")

    def digest(self) -> str:
        """Returns the digest of the state; equal states of one image have equal digests."""
        if self._digest is None:
            fold = self._folded()
            total = fold.total.to_bytes(_BITS // 8, "big")
            self._digest = digest_bytes(self.image.digest.encode() + total) if fold.first else self.image.digest
        return self._digest

    def changes(self, *, judged_only: bool = False) -> tuple[RowChange, ...]:
        """Returns the net changes, sorted by table and key."""
        fold = self._folded()
        found = []
        for (tab, key), first in fold.first.items():
            table = self.tables[tab]
            if table.judged or not judged_only:
                before, after = _named(table, first), _named(table, fold.last[tab, key])
                found.append(RowChange(table.sql_name, tuple(_DECODE(key)), before, after))  # type: ignore[arg-type]
        return tuple(sorted(found, key=lambda change: (change.table, [str(part) for part in change.key])))

    def apply(self, changes: Iterable[RowChange]) -> None:
        """Applies changes to the initial state, to restore a state. Raises `ValueError` if one does not fit."""
        by_name = {table.sql_name: table for table in self.tables}
        try:
            with self.transaction():
                rows = [(by_name[change.table], change) for change in changes]
                for table, change in rows:  # all rows go before any comes: two may have swapped a unique value
                    self._remove(table, change)
                for table, change in rows:
                    self._insert(table, change)
        except (KeyError, TypeError, OverflowError, UnicodeError, sqlite3.Error) as exc:
            raise ValueError(f"The changes do not fit this world: {exc}") from exc

    def _remove(self, table: Table, change: RowChange) -> None:
        if change.before is None:
            return
        where = " AND ".join(f"{name} = ?" for name in table.key)
        if self.connection.execute(f"DELETE FROM {table.sql_name} WHERE {where}", change.key).rowcount != 1:
            raise ValueError(f"{table.sql_name} has no row {change.key}")

    def _insert(self, table: Table, change: RowChange) -> None:
        if change.after is None:
            return
        values = [change.after[column.name] for column in table.columns]
        marks = ", ".join("?" * len(values))
        self.connection.execute(f"INSERT INTO {table.sql_name} VALUES ({marks})", values)

    def fork(self) -> Database:
        """Returns an independent database in the same state."""
        other = Database(self.tables, self.image)
        other.apply(self.changes())
        return other

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """Returns all rows of a table, by key."""
        return self.connection.execute(f"SELECT * FROM {table.sql_name}").fetchall()

    def close(self) -> None:
        """Gives the memory back, to the next database of the image or to the system. Idempotent."""
        held = [self.connection]
        self.connection = _CLOSED
        if held[0] is not _CLOSED:
            _KEPT.put(held, self._fold, self.tables, self.image)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Closes a database that was dropped, as those of forks are."""
        if hasattr(self, "connection") and not is_finalizing():  # at the end of the process this module is empty
            self.close()

    def _folded(self) -> _Fold:
        if self.connection.in_transaction:
            raise RuntimeError("the state has no digest in the middle of a transaction")
        fold = self._fold
        query = "SELECT seq, tab, key, old, new FROM temp.journal WHERE seq > ? ORDER BY seq"
        fold.add(self.connection.execute(query, (fold.seen,)))
        return fold


class _KeptConnection:
    """A connection with journal and triggers whose database is gone."""

    __slots__ = ("connection", "fold", "image", "tables")

    def __init__(self, connection: sqlite3.Connection, fold: _Fold, tables: tuple[Table, ...], image: Image) -> None:
        self.connection = connection
        self.fold = fold
        self.tables = tables
        self.image = image

    def __del__(self) -> None:
        self.connection.close()  # Python 3.13 warns of open ones


class _KeptConnections:
    """The connections kept last. `put` may run in the middle of anything, since a dropped database calls it: each
    operation on the queue is atomic."""

    def __init__(self) -> None:
        self._queue: deque[_KeptConnection] = deque(maxlen=_MOST_KEPT)

    def put(self, held: list[sqlite3.Connection], fold: _Fold, tables: tuple[Table, ...], image: Image) -> None:
        """Keeps a connection, or closes it: one that something else refers to could still be used."""
        if _references(held) != _ALONE or held[0].in_transaction:
            held[0].close()
        else:
            self._queue.append(_KeptConnection(held[0], fold, tables, image))

    def take(self, tables: tuple[Table, ...], image: Image) -> _KeptConnection | None:
        """Returns a connection of an image, the one kept last; None if there is none. Closes the oldest ones while all
        together are too large."""
        kept = list(self._queue)
        found = next((one for one in reversed(kept) if one.image is image and one.tables == tables), None)
        size = sum(len(one.image.data) for one in kept)
        for one in kept:
            if one is found or size > _MOST_KEPT_BYTES:
                size -= len(one.image.data)
                try:
                    self._queue.remove(one)
                except ValueError:  # another thread has taken it
                    found = None if one is found else found
        return found


def _references(held: list[Any]) -> int:
    return sys.getrefcount(held[0])


_KEPT: Final = _KeptConnections()


class NewImage:
    """A database whose tables are created and can be filled; `finish` makes the image."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tuple(tables)
        self.connection = _connect()
        services = dict.fromkeys(table.service for table in tables)
        statements = []
        for service in services:
            own = [table for table in tables if table.service == service]
            known: dict[str, Table] = {}
            for table in own:
                kind = table.columns[table.key_positions[0]].identifier
                if len(table.key) == 1 and kind is not None:
                    known.setdefault(kind, table)  # a later table with such a key extends the first one
            statements += [text for table in own for text in table.ddl(known)]
        self.connection.executescript(";".join(statements))
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("BEGIN")

    def finish(self) -> Image:
        """Returns the image and closes the database. Raises `sqlite3.IntegrityError` for a broken constraint."""
        self.connection.execute("COMMIT")
        content = []
        for table in sorted(self.tables, key=lambda table: table.sql_name):
            rows = self.connection.execute(f"SELECT * FROM {table.sql_name}").fetchall()
            content.append([table.sql_name, [column.name for column in table.columns], rows])
        digest = digest_bytes(canonical_bytes(content))
        data = self.connection.serialize()
        self.connection.close()
        return Image(data, digest)

    def close(self) -> None:
        """Releases the memory. Idempotent."""
        self.connection.close()


def _connect() -> sqlite3.Connection:
    """Opens an empty database in memory, in autocommit mode, usable by any thread, one at a time."""
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=512)


_CLOSED: Final = _connect()
"""Connection of every closed database: using it raises `sqlite3.ProgrammingError`."""
_ALONE: Final = _references([_CLOSED]) - 1
"""References to a connection that only one list holds; its own cache of statements holds some, too."""
_CLOSED.close()


def _named(table: Table, row: str | None) -> dict[str, str | int | None] | None:
    if row is None:
        return None
    return dict(zip((column.name for column in table.columns), _DECODE(row), strict=True))
