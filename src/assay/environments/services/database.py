"""The state of a world of services: one SQLite database in memory, with a journal of its net changes.

A database is opened on an image, the serialised initial state, which one process makes once for each set of tables,
seed and knobs. TEMP triggers write each change of a row into a TEMP table, so that the image stays clean. Folding the
journal (first old row, last new row, equal ones dropped) gives the net changes: a write that was undone leaves no
trace, and the order of writes does not matter.

The digest of a state covers the image and the set of net changes. The set is hashed incrementally, as the sum of one
number a row (AdHash: Bellare and Micciancio, Eurocrypt 1997), so that a call costs in proportion to what it
changed. The numbers have 2,048 bits: the generalised birthday attack on a sum of n bits takes about 2^(2 sqrt(n))
steps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

from assay.records import canonical_bytes, digest_bytes

from .schema import Table

_DECODE: Final = msgspec.json.Decoder(type=list[str | int | None]).decode
_BITS: Final = 2_048
_MODULUS: Final = 1 << _BITS
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
        self.connection = _connect()
        self.connection.deserialize(image.data)
        self.connection.execute("PRAGMA foreign_keys = ON")
        statements = [_JOURNAL, *(text for number, table in enumerate(tables) for text in table.triggers(number))]
        self.connection.executescript(";".join(statements))
        self._fold = _Fold(self.tables)
        self._digest: str | None = None

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
        """Releases the memory. Idempotent."""
        self.connection.close()

    def __del__(self) -> None:
        """Closes the connection of a world that was dropped, as forks are; Python 3.13 warns of open ones."""
        connection = getattr(self, "connection", None)
        if connection is not None:
            connection.close()

    def _folded(self) -> _Fold:
        if self.connection.in_transaction:
            raise RuntimeError("the state has no digest in the middle of a transaction")
        fold = self._fold
        query = "SELECT seq, tab, key, old, new FROM temp.journal WHERE seq > ? ORDER BY seq"
        fold.add(self.connection.execute(query, (fold.seen,)))
        return fold


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


def _named(table: Table, row: str | None) -> dict[str, str | int | None] | None:
    if row is None:
        return None
    return dict(zip((column.name for column in table.columns), _DECODE(row), strict=True))
