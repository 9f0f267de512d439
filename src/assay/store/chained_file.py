"""Append-only files of JSON lines in which each record names the digest of the one before it.

A record is committed by its newline: a last line without one is what a crash left of an append that never returned. It
is ignored, and removed by the next append.

Covered: a link, pipe or device in the place of the file is refused, so that no other file is read, written or waited
for; what is refused changes nothing. Not covered: a folder above the file that is a link.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Generic, Protocol, TypeVar

import msgspec

from assay.errors import StoreError, boundary
from assay.records import canonical_bytes, digest_bytes

from .seal import flush_to_disk

MOST_BYTES: Final = 256 << 20
_BLOCK: Final = 64 << 10


class ChainedRecord(Protocol):
    """A record of a chained file."""

    @property
    def previous(self) -> str: ...
    @property
    def digest(self) -> str: ...


class _Previous(msgspec.Struct):
    previous: str = ""


R = TypeVar("R", bound=ChainedRecord)


class ChainedFile(Generic[R]):
    """One file; appends are serialised by a lock on the file itself and are on disk when they return.

    Args:
        path: The file.
        kind: Its records.
        most_bytes: Size beyond which it is not read, and no record is appended.
    """

    def __init__(self, path: Path, kind: type[R], most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._kind, self._most = kind, most_bytes

    def read(self) -> list[R]:
        """Returns all records, oldest first. Raises `StoreError` if the file is damaged or was changed."""
        return [self._decode(number, line) for number, line in self._lines()]

    def last(self) -> R | None:
        """Returns the last record; None without one. Reads no other record, and raises `StoreError` as `read` does
        for a line that was changed, added or removed."""
        for number, line in deque(self._lines(), maxlen=1):
            return self._decode(number, line)
        return None

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yields the number and the bytes of each committed line; each names the bytes of the one before it."""
        try:
            file = open_ledger(self.path)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise StoreError(f"{self.path} cannot be read: {exc.strerror}") from exc
        with file:
            if os.fstat(file.fileno()).st_size > self._most:
                raise StoreError(f"{self.path} is larger than {self._most >> 20} MiB: restore it from a copy")
            previous = ""
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    found = msgspec.json.decode(line, type=_Previous).previous
                except (msgspec.DecodeError, ValueError, RecursionError) as exc:
                    raise StoreError(f"{self._line_name(number)}, is damaged: {exc}; restore it from a copy") from exc
                if found != previous:
                    raise StoreError(f"{self._line_name(number)}: a line before it was changed, added or removed")
                previous = digest_bytes(memoryview(line)[:-1])
                yield number, line[:-1]

    def _decode(self, number: int, line: bytes) -> R:
        try:
            record = msgspec.json.decode(line, type=self._kind)
            is_canonical = canonical_bytes(record) == line
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise StoreError(f"{self._line_name(number)}, is damaged: {exc}; restore it from a copy") from exc
        if not is_canonical:  # the digest is of the record, so it would not notice another spelling
            raise StoreError(f"{self._line_name(number)}, was changed: restore it from a copy")
        return record

    def _line_name(self, number: int) -> str:
        return f"{self.path}, line {number}"

    @contextmanager
    def locked(self) -> Iterator[Callable[[R], None]]:
        """Yields a function that appends a record made after `read` or `last` inside the lock."""
        with boundary(StoreError, f"opening {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open_ledger(self.path, write=True)
        with file:
            with boundary(StoreError, f"locking {self.path}"):
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)

            def append(record: R) -> None:
                with boundary(StoreError, f"writing {self.path}"):
                    line = canonical_bytes(record) + b"\n"
                    end = end_of_last_line(file)
                    if end + len(line) > self._most:
                        raise StoreError(f"{self.path} would be larger than {self._most >> 20} MiB: begin another one")
                    file.truncate(end)
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                    flush_to_disk(self.path.parent)  # makes the name of a new file durable

            yield append


def open_ledger(path: Path, *, write: bool = False) -> BinaryIO:
    """Opens a ledger to be read, or to be read and appended to, and makes it in that case.

    Raises:
        OSError: It cannot be opened, or something other than an ordinary file is in its place.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if write else os.O_RDONLY
    # Without O_NONBLOCK, opening a pipe waits for its other end.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "it is no ordinary file", str(path))
    return os.fdopen(descriptor, "a+b" if write else "rb")


def end_of_last_line(file: BinaryIO) -> int:
    """Returns the position after the last newline of a file; 0 where it has none."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
