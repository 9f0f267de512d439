"""Append-only files of JSON lines in which each record names the digest of the one before it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

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
            raise StoreError(f"{self.path} is larger than {_BYTES >> 20} MiB: it is no ledger of Assay's")
        return list(self._decode(data))

    def _decode(self, data: bytes) -> Iterator[R]:
        previous = ""
        for number, line in enumerate(data.splitlines(), 1):
            try:
                record = msgspec.json.decode(line, type=self._kind)
            except (msgspec.DecodeError, ValueError, RecursionError) as exc:
                raise StoreError(f"{self.path}, line {number}, is damaged: {exc}; restore it from a copy") from exc
            if record.previous != previous:
                raise StoreError(f"{self.path}, line {number}: a line before it was changed, added or removed")
            previous = record.digest
            yield record

    @contextmanager
    def locked(self) -> Iterator[Callable[[R], None]]:
        """Yields a function that appends a record made after `read` inside the lock."""
        with boundary(StoreError, f"opening {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("ab")
        with file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)

            def append(record: R) -> None:
                with boundary(StoreError, f"writing {self.path}"):
                    file.write(canonical_bytes(record) + b"\n")
                    file.flush()
                    os.fsync(file.fileno())

            yield append
