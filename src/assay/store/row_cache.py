"""Checked rows of large runs, kept in the user's cache for the next time that they are shown or counted.

An entry is named by what it depends on, and by the contents of the code that folds rows: another version of Assay finds
no entry. Entries are kept where the user keeps other caches, never in the store: whoever may write a store could forge
them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import tempfile
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from blake3 import blake3

import assay
from assay.settings import Settings

LEAST_CHAINS = 1_000
"""Smaller runs are read as quickly without it."""
MAX_ENTRIES = 32
_CODE = ("store", "records", "verdicts")
T = TypeVar("T")


class RowCache(Generic[T]):
    """Keeps values of one type.

    Args:
        kind: The type of the values.
        folder: Default: `rows` in the user's cache.
    """

    def __init__(self, kind: type[T], folder: Path | None = None) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._folder = folder

    def key(self, *parts: str) -> str | None:
        """Returns the name of the entry that depends on `parts`; None where the code has no files to be named by."""
        code = _code_digest()
        return None if code is None else blake3(msgspec.json.encode((code, *parts))).hexdigest()

    def load(self, key: str) -> T | None:
        """Returns an entry; None without one, or if another user may have written it."""
        try:
            with (self._open_folder() / key).open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    return None
                return self._decoder.decode(file.read())
        except (OSError, msgspec.DecodeError, ValueError, RecursionError):
            return None

    def save(self, key: str, value: T) -> None:
        """Writes an entry and deletes the oldest over the maximum; does nothing where the cache cannot be written."""
        with contextlib.suppress(OSError):
            folder = self._open_folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
                file.write(msgspec.msgpack.encode(value))
            Path(file.name).replace(folder / key)
            entries = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in entries[MAX_ENTRIES:]:
                path.unlink(missing_ok=True)

    def _open_folder(self) -> Path:
        return self._folder or Settings.from_environment().cache / "rows"


@functools.cache
def _code_digest() -> str | None:
    """Returns the digest of the modules that fold rows; None if they are not files."""
    found = blake3()
    root = Path(assay.__file__).parent
    paths = [path for name in _CODE for path in sorted((root / name).glob("*.py"))]
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest() if paths else None
