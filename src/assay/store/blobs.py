"""Content-addressed bytes: `blobs/ab/<hex>`, shared by all runs of a store.

Invariant: a file under its address is complete, because it is written elsewhere and renamed, and read-only. A blob is
flushed to the page cache, not to the disk: a killed process loses nothing, a power cut may, and `verify` finds it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from assay.errors import StoreError, describe_os_error
from assay.records import DIGEST_PREFIX, digest_bytes

_ADDRESS = re.compile(r"blake3:[0-9a-f]{64}")


class BlobStore:
    """A folder of content-addressed blobs."""

    def __init__(self, root: Path, *, is_own: bool = False) -> None:
        """Opens a folder. `is_own`: it is empty, and only this object will write to it, which then knows without a look
        at the disk what is there."""
        self.root = root
        self._written: set[str] | None = set() if is_own else None

    def path(self, digest: str) -> Path:
        """Returns the path of a blob, which need not exist. Raises `StoreError` for an invalid content address."""
        if not _ADDRESS.fullmatch(digest):
            raise StoreError(f"{digest[:80]!r} is not a content address (blake3: and 64 hexadecimal digits)")
        name = digest.removeprefix(DIGEST_PREFIX)
        return self.root / name[:2] / name

    def has(self, digest: str) -> bool:
        """Returns whether the blob exists, and renews its age: the caller may refer to it next, so `gc` must keep
        it."""
        return _touch(self.path(digest))

    def is_stored(self, digest: str) -> bool:
        """Returns whether the blob of a valid content address exists; its age stays."""
        if self._written is not None:
            return digest in self._written
        name = digest.removeprefix(DIGEST_PREFIX)
        return os.path.isfile(f"{self.root}/{name[:2]}/{name}")  # noqa: PTH113  # a tenth of the cost of a `Path`

    @property
    def is_known_empty(self) -> bool:
        """Returns whether there is no blob, as far as is known without a look at the disk."""
        return self._written is not None and not self._written

    def put(self, data: bytes) -> str:
        """Stores bytes and returns their address."""
        digest = digest_bytes(data)
        if self._written is not None and digest in self._written:
            return digest
        if not self.has(digest):
            target = self.path(digest)
            with _store_errors("write a blob", self.root):
                target.parent.mkdir(parents=True, exist_ok=True)
                with _replacing(target) as temporary:
                    temporary.write_bytes(data)
        self._note_written(digest)
        return digest

    def _note_written(self, digest: str) -> None:
        if self._written is not None:
            self._written.add(digest)

    def put_stream(self, chunks: Iterable[bytes]) -> str:
        """Stores a stream in bounded memory and returns its address."""
        from blake3 import blake3

        hasher = blake3()
        with _store_errors("write a blob", self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self.root, suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    for chunk in chunks:
                        hasher.update(chunk)
                        file.write(chunk)
                return self._adopt(Path(name), DIGEST_PREFIX + hasher.hexdigest())
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def put_file(self, path: Path) -> str:
        """Moves a finished file into the store and returns its address."""
        from blake3 import blake3

        with _store_errors(f"read {path.name}"):
            hasher = blake3()
            hasher.update_mmap(path)
        return self._adopt(path, DIGEST_PREFIX + hasher.hexdigest())

    def get(self, digest: str, *, limit: int | None = None) -> bytes:
        """Returns the bytes, or the first `limit` of them without checking their digest.

        Raises:
            StoreError: It is missing or unreadable, or its bytes do not have its digest.
        """
        with self.open(digest) as file, _store_errors(f"read blob {digest}"):
            if limit is not None:
                return file.read(limit)
            data = file.read()
        if digest_bytes(data) != digest:
            raise StoreError(f"blob {digest} was changed: its bytes do not have its digest; restore it from a copy")
        return data

    def open(self, digest: str) -> BinaryIO:
        """Opens a blob for reading. Raises `StoreError` where it is missing or unreadable."""
        try:
            return self.path(digest).open("rb")
        except FileNotFoundError as exc:
            raise StoreError(
                f"blob {digest} is missing from {self.root} "
                f"(erased by `assay store erase`, or removed by `assay gc`): restore it from a copy"
            ) from exc
        except OSError as exc:
            raise StoreError(f"blob {digest} cannot be read: {exc.strerror or exc}") from exc

    def intact(self, digest: str) -> bool:
        """Returns whether the stored bytes still have their digest."""
        from blake3 import blake3

        path = self.path(digest)
        hasher = blake3()
        try:
            hasher.update_mmap(path)
        except OSError:
            return False
        return DIGEST_PREFIX + hasher.hexdigest() == digest

    def addresses(self) -> Iterator[str]:
        """Yields the address of every blob."""
        for folder in sorted(self.root.glob("[0-9a-f][0-9a-f]")):
            with _store_errors("list the blobs"):
                names = sorted(path.name for path in folder.iterdir())
            for name in names:
                if _ADDRESS.fullmatch(DIGEST_PREFIX + name):
                    yield DIGEST_PREFIX + name

    def remove(self, digest: str) -> None:
        """Removes a blob. Only `gc` decides which."""
        self.path(digest).unlink(missing_ok=True)
        if self._written is not None:
            self._written.discard(digest)

    def _adopt(self, path: Path, digest: str) -> str:
        self._move(path, digest)
        self._note_written(digest)
        return digest

    def _move(self, path: Path, digest: str) -> None:
        target = self.path(digest)
        with _store_errors("keep a blob", self.root):
            if _touch(target):
                path.unlink()
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            path.chmod(0o444)
            os.utime(path)
            if path.stat().st_dev == target.parent.stat().st_dev:
                path.replace(target)
                return
            with _replacing(target) as temporary:
                shutil.copyfile(path, temporary)
            path.unlink()


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Yields a path unique to this thread, which becomes the read-only `target`; removed after an error."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        temporary.chmod(0o444)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _touch(path: Path) -> bool:
    """Returns whether a blob exists, and sets its time to now."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    except OSError:  # not ours to touch, or a folder that cannot be written
        return path.is_file()
    return True


@contextlib.contextmanager
def _store_errors(what: str, path: Path | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        said = describe_os_error(exc, path, elsewhere="choose another folder with --store")
        raise StoreError(f"cannot {what}: {said}") from exc
