"""The SQLite file of a live run: its schema, its migrations and its lock.

WAL with `synchronous=NORMAL`: a killed process loses no commit; a power cut may lose the last ones but never
corrupts. One writer a run, held by a file lock that the kernel releases when its process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from assay.errors import StoreError, describe_os_error
from assay.records import SCHEMA_VERSION
from assay.store.chain import Link, decode_event
from assay.store.rows import RowBuilder

PAGE_BYTES = 16 * 1024
"""Of a new file. An event has some KiB: in pages of 4 KiB most of them spill into a second one, and four times as many
pages are written."""
LOG_BYTES = 32 * 1024 * 1024
"""Size of the log before it is written to the file: many chains write the same pages again and again, and each is
then written there once."""
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_NETWORK_SOURCES = ("mountpoint-s3",)
"""Programs that mount a bucket as plain `fuse`."""
_NETWORK_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3",
    "fuse.mountpoint-s3", "fuse.blobfuse2", "fuse.sshfs",
})  # fmt: skip
_NETWORK_MOUNT = re.compile(r" - (?:nfs|cifs|smb3|fuse)")
"""Found in a list of mounts with one of these: most have none, and need no other look."""
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, chain TEXT NOT NULL, idx INTEGER NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL,
    previous TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE UNIQUE INDEX events_by_chain ON events (chain, idx);
CREATE TABLE attempts (chain TEXT PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
"""


def _migrate_from_0(connection: sqlite3.Connection) -> None:
    """Folds the summary rows, which version 0 lacks, from the events."""

    connection.execute("CREATE TABLE attempts (chain TEXT PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID")
    fold_rows(connection)


def _migrate_from_1(connection: sqlite3.Connection) -> None:
    """Folds the summary rows again: those of version 1 have no integrity."""

    connection.execute("DELETE FROM attempts")
    fold_rows(connection)


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {0: _migrate_from_0, 1: _migrate_from_1}
"""From version to the function that brings a file to the next one. Never removed: old stores stay readable."""


def expected_schema() -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        return connection.execute(SCHEMA_QUERY).fetchall()


SCHEMA_QUERY = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"


def connect(path: Path, *, create: bool = False, write: bool = False) -> sqlite3.Connection:
    """Opens a run's file.

    A writer (who holds the run's lock) migrates an older file in place. A reader never changes one: it migrates a
    private copy, so that old runs stay readable from folders that cannot be written.

    Raises:
        StoreError: It is missing, damaged, of a newer version, or cannot be read where it lies; or it would be
            written on a network file system.
    """
    if create or write:
        _refuse_network_mount(path)
    if create:
        with store_errors(path):
            return _create(path)
    if not path.is_file():
        raise StoreError(f"{path.parent.name}: run.sqlite is missing")
    with store_errors(path):
        connection = _open(path)
        try:
            connection = _upgrade(connection, path, write=write)
            connection.execute("PRAGMA synchronous=NORMAL")
            page_bytes = int(connection.execute("PRAGMA page_size").fetchone()[0])
            connection.execute(f"PRAGMA wal_autocheckpoint={LOG_BYTES // page_bytes}")
            if not write:
                connection.execute("PRAGMA query_only=1")
        except BaseException:
            connection.close()
            raise
        return connection


def _refuse_network_mount(path: Path) -> None:
    """Raises `StoreError` where the file would lie on a network file system or a mounted bucket: SQLite's log needs
    shared memory and locks that these do not have, and a database there is damaged without a word."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # not Linux
        return
    kind = network_mount(path.absolute().parent.resolve(), mounts)
    if kind is not None:
        raise StoreError(
            f"{path.parent} lies on a network file system or a mounted bucket ({kind}), where a database that is "
            "written can be damaged: write the run to a local folder (--store), and copy it when it is sealed with "
            "`assay store copy`"
        )


def network_mount(folder: Path, mounts: str) -> str | None:
    """Returns the file system type of a folder if it is a network file system or a mounted bucket, else None.

    `mounts` has the form of `/proc/self/mountinfo`.
    """
    if _NETWORK_MOUNT.search(mounts) is None:
        return None
    nearest, kind = -1, ""
    for line in mounts.splitlines():
        mount, _, rest = line.partition(" - ")
        fields, described = mount.split(" "), rest.split(" ")
        if len(fields) < 5 or len(described) < 2:
            continue
        point = Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        if folder.is_relative_to(point) and len(point.parts) >= nearest:  # a later mount covers an earlier one
            nearest, kind = len(point.parts), described[0]
            if described[0] == "fuse" and described[1] in _NETWORK_SOURCES:
                kind = f"fuse.{described[1]}"
    return kind if kind in _NETWORK_TYPES else None


def _create(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def speed_up_spool(connection: sqlite3.Connection) -> None:
    """Lets commits to a file that is of no use to another process cost half: a killed process may leave it damaged."""
    connection.execute("PRAGMA journal_mode=MEMORY")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")


def _open(path: Path) -> sqlite3.Connection:
    """Opens a connection that never creates a file, and reads a read-only folder where SQLite can."""
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=rw", uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA busy_timeout=10000")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as exc:
        connection.close()
        if not isinstance(exc, sqlite3.OperationalError) or os.access(path.parent, os.W_OK) or "locked" in str(exc):
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"run {path.parent.name} was not closed, and its folder cannot be written: "
                "copy the folder to where you may write and read it there"
            ) from exc
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    return connection


def _upgrade(connection: sqlite3.Connection, path: Path, *, write: bool) -> sqlite3.Connection:
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if found > SCHEMA_VERSION:
        raise StoreError(
            f"run {path.parent.name} was written by a newer Assay (schema {found}, this one knows {SCHEMA_VERSION}): "
            "update Assay"
        )
    if found == SCHEMA_VERSION:
        return connection
    if found not in MIGRATIONS:
        raise StoreError(f"{path} has the unknown schema {found}: it is damaged, restore it from a copy")
    if not write:
        # An empty name is a private file that SQLite removes with the connection.
        copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            connection.backup(copy)
            _migrate(copy, found)
        except BaseException:
            copy.close()
            raise
        connection.close()
        return copy
    _migrate(connection, found)
    return connection


def _migrate(connection: sqlite3.Connection, version_found: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(version_found, SCHEMA_VERSION):
            MIGRATIONS[version](connection)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Converts errors of SQLite and the file system to `StoreError` with a remedy."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        raise StoreError(f"{path}: {exc} ({_hint(str(exc))})") from exc
    except UnicodeDecodeError as exc:
        raise StoreError(f"{path}: it holds text that is not UTF-8 ({_hint('decode')})") from exc
    except OSError as exc:
        raise StoreError(describe_os_error(exc, path, elsewhere="choose another folder with --store")) from exc


def _hint(message: str) -> str:
    if any(word in message for word in ("malformed", "not a database", "no such", "decode")):
        return "it is damaged: restore it from a copy"
    if "full" in message or "disk I/O" in message:
        return "free space and run `assay resume`, or repeat the command if no run was made yet"
    if "locked" in message:
        return "another process holds it: wait for it or stop it"
    if "readonly" in message or "unable to open" in message:
        return "this user may not write there: copy the run's folder to where you may"
    return "see the message"


def has_writer(path: Path) -> bool:
    """Returns whether a process holds the lock of a run. Changes nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # every writer creates it
    except OSError:
        return True  # it cannot be known
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class WriterLock:
    """The lock of a run's one writer. The kernel drops it when its process dies, so it is never stale."""

    def __init__(self, path: Path) -> None:
        with store_errors(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(self._fd)
        except OSError as exc:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise StoreError(
                f"run {path.parent.name} is being written by process {holder}: wait for it or stop it"
            ) from exc
        with contextlib.suppress(OSError):  # a full disk must not keep a run from being resumed
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Releases the lock. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock(descriptor: int) -> None:
    """Takes the lock. Waits for `has_writer`, which holds it for a moment."""
    for wait_s in (0.01, 0.04, 0.0):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait_s:
                raise
            time.sleep(wait_s)


def fold_rows(connection: sqlite3.Connection) -> None:
    """Folds the summary row of every chain from its events."""
    named = connection.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()
    if named is None:
        raise StoreError("an older run file does not name its run: restore it from a copy")
    run = str(named[0])
    builders: dict[str, RowBuilder] = {}
    rows = connection.execute("SELECT chain, idx, body, digest FROM events ORDER BY chain, idx")
    for chain, index, body, digest in rows:
        builder = builders.setdefault(chain, RowBuilder(run, chain))
        builder.add(decode_event(Link(chain, index, "", body, digest)).body)
        builder.fields |= {"head": digest, "length": index + 1}
    connection.executemany("INSERT INTO attempts VALUES (?, ?)", [(c, b.encode()) for c, b in builders.items()])
