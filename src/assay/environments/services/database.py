"""The state of a world of services: one SQLite database in memory, with a journal of its net changes.

A database is opened on an image, the serialised initial state, which one process makes once for each set of tables,
seed and knobs. Triggers write each change of a row into a journal. They are part of the image, because SQLite parses a
stored trigger three times as fast as it creates one. `net_changes` folds the journal.

Closing a database undoes its net changes and keeps the connection for the next database of the image, with its parsed
schema and prepared statements. Only a connection that nothing else refers to is kept (a cursor, a bound method and the
frame of a running transaction all refer to theirs), so no user of a closed database can reach the next one.

The digest of a state covers the image and the set of net changes.
"""

from __future__ import annotations

import atexit
import sqlite3
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final

import msgspec

from assay.records import canonical_bytes, digest_bytes

from .net_changes import JournalFold, RowChange, RowReplacement, plan_replacement
from .schema import Table

_JOURNAL: Final = "CREATE TABLE journal (seq INTEGER PRIMARY KEY, tab INTEGER, key TEXT, old TEXT, new TEXT)"
_MOST_IDLE: Final = 16
"""Connections kept for later databases."""
_MOST_IDLE_BYTES: Final = 64 << 20
"""Bytes of their images."""
_MOST_UNDONE: Final = 1_000
"""Entries of a journal beyond which a connection is closed instead: its pages would stay allocated."""


class Image(msgspec.Struct, frozen=True, eq=False):
    """An initial state."""

    tables: tuple[Table, ...]
    """All tables, in the order of their numbers in the journal."""
    data: bytes
    """The serialised database."""
    digest: str
    """Digest of its logical content: tables, columns and rows, not pages."""


class _IdleConnections:
    """Connections in the initial state of their image, the last used ones, for any thread.

    A connection is handed over by `put` and taken by `pop`. Both run in finalisers too, which may interrupt either:
    they never wait for the lock, and do without the connection while another holds it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[Image, sqlite3.Connection]] = []

    def pop(self, image: Image) -> sqlite3.Connection | None:
        """Removes and returns a connection to the image; None without one."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            at = next((at for at, (known, _) in enumerate(self._held) if known is image), None)
            return None if at is None else self._held.pop(at)[1]
        finally:
            self._lock.release()

    def put(self, image: Image, connection: sqlite3.Connection) -> None:
        """Keeps a connection, and closes those beyond the limits."""
        closed = [connection]
        if self._lock.acquire(blocking=False):
            try:
                self._held.insert(0, (image, connection))
                size = 0
                for kept, (known, _) in enumerate(self._held):
                    size += len(known.data)
                    if kept == _MOST_IDLE or size > _MOST_IDLE_BYTES:
                        break
                else:
                    kept = len(self._held)
                closed = [other for _, other in self._held[kept:]]
                del self._held[kept:]
            finally:
                self._lock.release()
        for other in closed:
            other.close()

    def clear(self) -> None:
        """Closes all connections."""
        held, self._held = self._held, []
        for _, connection in held:
            connection.close()


_IDLE: Final = _IdleConnections()
atexit.register(_IDLE.clear)
_IN_USE: Final[dict[int, sqlite3.Connection]] = {}
"""The connections of all databases, by their `id`: none is ever garbage together with its database. Python 3.13 would
finalise, which is close, the connections of a cycle after `Database.__del__` has kept them."""


class Database:
    """A private, writable copy of an image."""

    def __init__(self, image: Image) -> None:
        self.tables = image.tables
        self.image = image
        self.connection = _IDLE.pop(image) or _open(image)
        _IN_USE[id(self.connection)] = self.connection
        self._fold = JournalFold(self.tables)
        self._digest: str | None = None
        self._writing: _Transaction | None = _Transaction(self.connection)
        self._reading: _Reading | None = _Reading(self.connection)

    def transaction(self) -> AbstractContextManager[None]:
        """Runs its body as one transaction: an exception, also of a constraint at its end, undoes all of it."""
        self._digest = None
        return self._writing or _Transaction(self.connection)

    def reading(self) -> AbstractContextManager[None]:
        """Runs its body and undoes what it wrote. Raises `PermissionError` if it wrote anything."""
        return self._reading or _Reading(self.connection)

    def digest(self) -> str:
        """Returns the digest of the state; equal states of one image have equal digests."""
        if self._digest is None:
            fold = self._folded()
            self._digest = digest_bytes(self.image.digest.encode() + fold.hash()) if fold.nets else self.image.digest
        return self._digest

    def changes(self, *, judged_only: bool = False) -> tuple[RowChange, ...]:
        """Returns the net changes, sorted by table and key."""
        return self._folded().changes(judged_only=judged_only)

    def apply(self, changes: Iterable[RowChange]) -> None:
        """Applies changes to the initial state, to restore a state. Raises `ValueError` if one does not fit."""
        by_name = {table.sql_name: table for table in self.tables}
        try:
            replacements = [plan_replacement(by_name[change.table], change) for change in changes]
            with self.transaction():
                _replace_rows(self.connection, replacements)
        except (KeyError, TypeError, OverflowError, UnicodeError, sqlite3.Error) as exc:
            raise ValueError(f"The changes do not fit this world: {exc}") from exc

    def fork(self) -> Database:
        """Returns an independent database in the same state."""
        fold = self._folded()
        other = Database(self.image)
        if fold.nets:
            other._fold = fold.copy()  # before the rows: what an exception leaves then is undone, or not used again
            _replace_rows_unrecorded(other.connection, fold.replacements())
        other._digest = self._digest
        return other

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """Returns all rows of a table, by key."""
        return self.connection.execute(f"SELECT * FROM {table.sql_name}").fetchall()

    def close(self) -> None:
        """Releases the memory, or keeps it for the next database of the image. Idempotent."""
        connection, self.connection = self.connection, _closed_connection()
        self._writing = self._reading = None
        is_own = _IN_USE.pop(id(connection), None) is connection
        # From here on only others that already have the connection can use it; then it is closed under them.
        if is_own and _references(connection) == _ALONE and _undo(connection, self.image, self._fold):
            _IDLE.put(self.image, connection)
        else:
            connection.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Closes a world that was dropped, as forks are; Python 3.13 warns of open connections."""
        if hasattr(self, "connection") and not is_finalizing():  # at the end of the process this module is empty
            self.close()

    def _folded(self) -> JournalFold:
        if self.connection.in_transaction:
            raise RuntimeError("the state has no digest in the middle of a transaction")
        self._fold.read(self.connection)
        return self._fold


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
        triggers = (text for number, table in enumerate(self.tables) for text in table.triggers(number))
        self.connection.executescript(";".join([_JOURNAL, *triggers]))
        data = self.connection.serialize()
        self.connection.close()
        return Image(self.tables, data, digest)

    def close(self) -> None:
        """Releases the memory. Idempotent."""
        self.connection.close()


def _connect() -> sqlite3.Connection:
    """Opens an empty database in memory, in autocommit mode, usable by any thread, one at a time.

    Its function `fold` is `fold_text`: SQLite's `lower` knows ASCII alone.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=512)
    connection.create_function("fold", 1, _fold_cell, deterministic=True)
    return connection


def fold_text(text: str) -> str:
    """Returns a text in a form in which neither case nor the encoding of accents makes a difference."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _fold_cell(cell: str | int | None) -> str | None:
    return None if cell is None else fold_text(str(cell))


def _open(image: Image) -> sqlite3.Connection:
    """Opens a copy of an image."""
    connection = _connect()
    connection.deserialize(image.data)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")  # a row that REPLACE removes is journaled too
    return connection


@cache
def _closed_connection() -> sqlite3.Connection:
    """Returns a connection that refuses every use, in place of one that was given away."""
    connection = _connect()
    connection.close()
    return connection


def _references(connection: sqlite3.Connection) -> int:
    return sys.getrefcount(connection)


def _count_alone() -> int:
    connection = _connect()
    try:
        return _references(connection)
    finally:
        connection.close()


_ALONE: Final = _count_alone()
"""References to a connection that only one variable of the caller refers to."""


class _Transaction:
    """Runs its body as one transaction, which any exception undoes; usable again and again.

    A class costs half of a generator's time, and a cursor of its own a fifth of each statement's.
    """

    __slots__ = ("_connection", "_execute")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute

    def __enter__(self) -> None:
        self._execute("BEGIN")

    def __exit__(self, kind: object, _exc: object, _traceback: object) -> None:
        try:
            if kind is None:
                self._execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._execute("ROLLBACK")


class _Reading:
    """Runs its body and undoes what it wrote; usable again and again."""

    __slots__ = ("_before", "_connection", "_execute")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute

    def __enter__(self) -> None:
        self._execute("BEGIN")  # fails inside of another scope, whose count it must not touch
        self._before = self._connection.total_changes  # `PRAGMA query_only` would prepare all statements again

    def __exit__(self, kind: object, _exc: object, _traceback: object) -> None:
        has_written = self._connection.total_changes != self._before
        self._execute("ROLLBACK" if has_written else "COMMIT")
        if has_written and kind is None:
            raise PermissionError("a view has written")


def _undo(connection: sqlite3.Connection, image: Image, fold: JournalFold) -> bool:
    """Returns a database to the state of its image, with an empty journal.

    False if that fails, a transaction is open, the changes are too many, or the schema or a setting of the connection
    was changed. Functions that somebody gave the connection, and entries taken out of the journal, are not noticed:
    actions have no connection.
    """
    query = (
        "SELECT (SELECT coalesce(max(seq), 0) FROM journal),"
        " (SELECT schema_version FROM pragma_schema_version), (SELECT count(*) FROM temp.sqlite_schema),"
        " (SELECT foreign_keys FROM pragma_foreign_keys), (SELECT recursive_triggers FROM pragma_recursive_triggers),"
        " (SELECT count(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp'))"
    )
    schema_version = int.from_bytes(image.data[40:44], "big")  # a field of the header of SQLite's file format
    try:
        if connection.in_transaction or not fold.is_whole:
            return False
        if connection.row_factory is not None or connection.text_factory is not str:
            return False
        entries, *settings = connection.execute(query).fetchone()
        if settings != [schema_version, 0, 1, 1, 0] or entries + len(fold.nets) > _MOST_UNDONE:
            return False
        fold.read(connection)
        if entries or fold.nets:
            _replace_rows_unrecorded(connection, fold.reversals())
    except (ValueError, sqlite3.Error):
        return False
    return True


def _replace_rows_unrecorded(connection: sqlite3.Connection, replacements: Sequence[RowReplacement]) -> None:
    """Changes rows in one transaction and leaves an empty journal. Raises as `_replace_rows`."""
    with _Transaction(connection):
        _replace_rows(connection, replacements)
        connection.execute("DELETE FROM journal")


def _replace_rows(connection: sqlite3.Connection, replacements: Sequence[RowReplacement]) -> None:
    """Changes rows. Raises `ValueError` if a row that shall go does not exist."""
    for table, key, removes, _ in replacements:  # all rows go before any comes: two may have swapped a unique value
        delete = f"DELETE FROM {table.sql_name} WHERE {table.by_key}"
        if removes and connection.execute(delete, key).rowcount != 1:
            raise ValueError(f"{table.sql_name} has no row {key}")
    for table, _, _, row in replacements:
        if row is not None:
            connection.execute(table.insertion, row)
