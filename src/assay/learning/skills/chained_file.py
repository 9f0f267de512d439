"""Append-only files of JSON lines in which each record names the digest of the one before it.

A record is committed by its newline: a last line without one is what a crash left of an append that never returned. It
is ignored, and removed by the next append.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

import msgspec

from assay.errors import StoreError, boundary
from assay.records import canonical_bytes

_BYTES = 256 << 20


class ChainedRecord(Protocol):
    """A record of a chained file."""

    @property
    def previous(self) -> str: ...
    @property
    def digest(self) -> str: ...


R = TypeVar("R", bound=ChainedRecord)


class ChainedFile(Generic[R]):
    """One file; appends are serialised by a lock on the file itself and are on disk when they return."""

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._kind = kind

    def read(self) -> list[R]:
        """Returns all records, oldest first. Raises `StoreError` if the file is damaged or was changed."""
        try:
            with self.path.open("rb") as file:
                data = file.read(_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise StoreError(f"{self.path} cannot be read: {exc.strerror}") from exc
        if len(data) > _BYTES:
            raise StoreError(f"{self.path} is larger than {_BYTES >> 20} MiB: restore it from a copy")
        return list(self._decode(data[: data.rfind(b"\n") + 1]))

    def _decode(self, data: bytes) -> Iterator[R]:
        previous = ""
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                record = msgspec.json.decode(line, type=self._kind)
                is_canonical = canonical_bytes(record) == line
            except (msgspec.DecodeError, ValueError, RecursionError) as exc:
                raise StoreError(f"{self.path}, line {number}, is damaged: {exc}; restore it from a copy") from exc
            if not is_canonical:  # the digest is of the record, so it would not notice another spelling
                raise StoreError(f"{self.path}, line {number}, was changed: restore it from a copy")
            if record.previous != previous:
                raise StoreError(f"{self.path}, line {number}: a line before it was changed, added or removed")
            previous = record.digest
            yield record

    @contextmanager
    def locked(self) -> Iterator[Callable[[R], None]]:
        """Yields a function that appends a record made after `read` inside the lock."""
        with boundary(StoreError, f"opening {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("a+b")
        with file:
            with boundary(StoreError, f"locking {self.path}"):
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
                _remove_torn_line(file)

            def append(record: R) -> None:
                with boundary(StoreError, f"writing {self.path}"):
                    file.write(canonical_bytes(record) + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                    _sync_folder(self.path.parent)

            yield append


def _remove_torn_line(file: BinaryIO) -> None:
    file.seek(0)
    data = file.read(_BYTES + 1)
    if data and not data.endswith(b"\n"):
        file.truncate(data.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)


def _sync_folder(folder: Path) -> None:
    """Makes the name of a new file durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
