"""Layers of the cache that are in use, and the removal of those that are not, the least recently used first.

A process that uses a layer holds a shared lock for it, a byte of the file `.use.lock` beside the layers, which the
kernel releases when the process dies (`F_OFD_SETLK`: one open file, however many layers). The cleaner takes the
exclusive one, or leaves the layer alone, and renames the folder before it deletes its files: a layer is whole, or
absent. A killed cleaner leaves a renamed folder, which the next one deletes.

Invariant: a layer is not removed while a process of this machine has it pinned, and one that is gone when it is to be
pinned counts as missing: it is downloaded or made again. What cannot be made again stays: an imported root file system,
and the tool layer of an installed agent. Not covered: machines that share a cache over a network file system without
such locks; a process that reads a layer and has not pinned it, or that may not write beside it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache as once
from pathlib import Path
from typing import NamedTuple

import msgspec

FRESH_S = 10.0
"""A layer that was used or made within this time is not removed: its maker may be about to pin it."""
TOUCH_S = 5.0
"""The time of the last use is as exact as this."""
_DIGEST = re.compile(r"[0-9a-f]{32}")
_REMOVED, _LOCK = ".removed-", ".use.lock"


class LayerPins:
    """Layers that stay in the cache until `close`."""

    def __init__(self) -> None:
        self._is_held: dict[Path, bool] = {}
        """The layers' folders; False after `close`."""

    def pin(self, folders: Iterable[Path]) -> bool:
        """Pins layers, given as folders of the cache. Returns False if one is absent, and pins the others."""
        return all([self._pin(folder) for folder in folders])

    def renew(self) -> bool:
        """Pins again what was pinned before `close`. Returns False if a layer was removed meanwhile."""
        return self.pin(list(self._is_held))

    def close(self) -> None:
        """Lets the layers be removed. Idempotent."""
        for folder, is_held in self._is_held.items():
            if is_held:
                self._is_held[folder] = False
                _shared_locks(folder.parent.absolute()).release(folder)

    def _pin(self, folder: Path) -> bool:
        if not self._is_held.get(folder):
            if not _shared_locks(folder.parent.absolute()).acquire(folder):
                return False
            self._is_held[folder] = True
        _note_use(folder)
        return True


@once
def process_pins() -> LayerPins:
    """Returns pins that are held until the process ends, for callers that do not say when they are done."""
    return LayerPins()


class _SharedLocks:
    """The locks of this process on the layers in one folder, which its pins share."""

    def __init__(self, parent: Path) -> None:
        self._path = parent / _LOCK
        self._file: int | None = None
        self._counts: Counter[int] = Counter()
        self._mutex = threading.Lock()

    def acquire(self, folder: Path) -> bool:
        """Locks a layer. Returns False if it is absent, or about to be removed."""
        start = _byte_of(folder)
        with self._mutex:
            if not self._counts[start]:
                try:
                    file = self._open()
                except FileNotFoundError:
                    return False
                if file is not None and not _set_lock(file, fcntl.F_RDLCK, start):
                    return False
                if not folder.is_dir():
                    if file is not None:
                        _set_lock(file, fcntl.F_UNLCK, start)
                    return False
            self._counts[start] += 1
        return True

    def release(self, folder: Path) -> None:
        start = _byte_of(folder)
        with self._mutex:
            self._counts[start] -= 1
            if self._counts[start] <= 0:
                del self._counts[start]
                if self._file is not None:
                    _set_lock(self._file, fcntl.F_UNLCK, start)

    def _open(self) -> int | None:
        """Returns the open file, anew if the cache was made anew; None where this process may not make it."""
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._file), self._path.stat()):
                    return self._file
            os.close(self._file)
            self._file = None
        with contextlib.suppress(PermissionError):
            self._file = _open_lock(self._path)
        return self._file


@once
def _shared_locks(parent: Path) -> _SharedLocks:
    return _SharedLocks(parent)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        if exc.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # of another user: shared locks are possible
    except FileNotFoundError:
        raise PermissionError(errno.EACCES, "it cannot be made", str(path)) from None


def _set_lock(file: int, kind: int, start: int) -> bool:
    """Sets or removes the lock on one byte. Returns False if another lock is in the way."""
    request = struct.pack("hhqqi", kind, os.SEEK_SET, start, 1, 0)  # `struct flock` of a 64-bit system
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, request)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES
        return False
    return True


def _byte_of(folder: Path) -> int:
    """Returns the byte of the lock file that stands for a layer, by its digest."""
    return int(folder.name[:15], 16)


class _LayerNote(msgspec.Struct, frozen=True):
    """Facts about a layer besides its files. The time of the file is that of the layer's last use."""

    size: int | None = None
    """Bytes on the disk."""
    is_fetched: bool = False
    """True if another machine has it."""


def _note_path(folder: Path) -> Path:
    return folder.parent.parent / "layers" / "used" / f"{folder.parent.name}-{folder.name}.json"


def _read_note(folder: Path) -> _LayerNote:
    try:
        return msgspec.json.decode(_note_path(folder).read_bytes(), type=_LayerNote)
    except (OSError, msgspec.MsgspecError):
        return _LayerNote()


def _write_note(folder: Path, note: _LayerNote, *, used: float | None = None) -> None:
    path = _note_path(folder)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):  # a cache that cannot be written is not cleaned, either
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(msgspec.json.encode(note))
        if used is not None:
            os.utime(temporary, (used, used))
        temporary.rename(path)


def _note_use(folder: Path) -> None:
    path = _note_path(folder)
    try:
        if time.time() - path.stat().st_mtime > TOUCH_S:
            os.utime(path)
    except OSError:
        _write_note(folder, _LayerNote())


def note_fetched(folder: Path) -> None:
    """Notes that a layer can be fetched from another machine, so that it may be removed though it cannot be made."""
    _write_note(folder, msgspec.structs.replace(_read_note(folder), is_fetched=True))


class CachedLayer(NamedTuple):
    """A layer of the cache."""

    folder: Path
    size: int
    """Bytes on the disk."""
    used: float
    """Unix time of its last use."""
    must_stay: bool
    """True for what cannot be made again."""


class CleaningReport(msgspec.Struct, frozen=True):
    """Result of a cleaning."""

    removed: tuple[str, ...]
    """`tools/DIGEST` or `images/DIGEST`."""
    bytes_freed: int
    kept: int
    bytes_kept: int
    in_use: int
    """Layers that would have been removed, and are in use."""
    dry_run: bool


def clean_layers(cache: Path, most_bytes: int, *, dry_run: bool = False) -> CleaningReport:
    """Removes the least recently used layers until all together have at most `most_bytes`, and what a killed cleaner
    left. Blocking. Does nothing while another process cleans the cache.

    Raises:
        OSError: A file cannot be deleted.
    """
    lock = cache / "layers" / ".cleaning.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return CleaningReport((), 0, 0, 0, 0, dry_run)
        if not dry_run:
            for parent in _parents(cache):
                for left in parent.glob(f"{_REMOVED}*"):
                    _delete(left)
        return _remove_oldest(list(_list_layers(cache)), most_bytes, time.time() - FRESH_S, dry_run=dry_run)


def _remove_oldest(layers: list[CachedLayer], most_bytes: int, before: float, *, dry_run: bool) -> CleaningReport:
    total, in_use, removed, freed = sum(one.size for one in layers), 0, [], 0
    for one in sorted(layers, key=lambda layer: layer.used):
        if total - freed <= most_bytes:
            break
        if one.must_stay:
            continue
        if one.used > before or not _remove(one.folder, dry_run=dry_run):
            in_use += 1
            continue
        removed.append(f"{one.folder.parent.name}/{one.folder.name}")
        freed += one.size
    return CleaningReport(tuple(removed), freed, len(layers) - len(removed), total - freed, in_use, dry_run)


def _remove(folder: Path, *, dry_run: bool) -> bool:
    """Removes a layer. Returns False if it is in use, or gone."""
    aside = folder.with_name(f"{_REMOVED}{folder.name}-{secrets.token_hex(4)}")
    lock = _open_lock(folder.with_name(_LOCK))
    try:
        if not _set_lock(lock, fcntl.F_WRLCK, _byte_of(folder)):
            return False
        if not dry_run:
            folder.rename(aside)
    finally:
        os.close(lock)
    if not dry_run:
        _note_path(folder).unlink(missing_ok=True)
        _delete(aside)
    return True


def _delete(folder: Path) -> None:
    """Deletes a folder, also where its modes forbid that."""
    for parent, names, _ in os.walk(folder):
        for path in (parent, *[os.path.join(parent, name) for name in names]):  # noqa: PTH118  # many files
            if not os.path.islink(path) and not os.access(path, os.W_OK | os.X_OK | os.R_OK):  # noqa: PTH114
                os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
    shutil.rmtree(folder)


def _parents(cache: Path) -> list[Path]:
    """Returns the folders of layers. One that is a link belongs to another cache."""
    return [one for one in (cache / "tools", cache / "images") if one.is_dir() and not one.is_symlink()]


def _list_layers(cache: Path) -> Iterator[CachedLayer]:
    needed = _imported_roots(cache) | _tools_of_agents(cache)
    for parent in _parents(cache):
        for folder in parent.iterdir():
            if not _DIGEST.fullmatch(folder.name) or folder.is_symlink():
                continue
            note, name = _read_note(folder), f"{parent.name}/{folder.name}"
            try:
                status = folder.stat()
                used = _note_path(folder).stat().st_mtime if _note_path(folder).exists() else status.st_ctime
                size = note.size
                if size is None:
                    size = _measure(folder)
                    _write_note(folder, msgspec.structs.replace(note, size=size), used=used)
            except OSError:  # it was removed, or used, meanwhile
                continue
            yield CachedLayer(folder, size, used, name in needed and not note.is_fetched)


def _measure(folder: Path) -> int:
    sizes: dict[tuple[int, int], int] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            status = os.lstat(os.path.join(parent, name))  # noqa: PTH118  # many files
            sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _imported_roots(cache: Path) -> set[str]:
    return {f"images/{digest}" for digest in _texts_in(cache / "images" / "roots", "*.json", "digest")}


def _tools_of_agents(cache: Path) -> set[str]:
    return set(_texts_in(cache / "agents", "*/installed.json", "python"))


def _texts_in(folder: Path, pattern: str, field: str) -> Iterator[str]:
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            value = msgspec.json.decode(path.read_bytes(), type=dict[str, object]).get(field)
            if isinstance(value, str):
                yield value
