"""Copies host folders for mounting in a verifier's sandbox, so that they are readable there and do not change.

A folder is copied once per process, and again when it changes, below a temporary folder that is removed when the
process ends or, if it was killed, when the next process starts. Links that lead outside and special files are refused.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import py_compile
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from assay.errors import TaskError
from assay.records import DIGEST_PREFIX

PREFIX = "assay-verify-"
MOST_ENTRIES = 20_000
MOST_BYTES = 1 << 30


class StagedCopy(NamedTuple):
    """Path of a copy, and the content address over its names, modes and bytes."""

    path: Path
    digest: str


def _remove_abandoned(folder: Path) -> None:
    """Removes the folders of killed processes."""
    for path in folder.glob(f"{PREFIX}*-*"):
        maker = path.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if maker.isdigit() and path.stat().st_uid == os.getuid() and not Path("/proc", maker).exists():
                shutil.rmtree(path, ignore_errors=True)


class _StagingArea:
    """The temporary folder of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[tuple[object, ...], StagedCopy] = {}
        self.compiled: set[Path] = set()
        self.numbers = itertools.count()
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        atexit.register(self._remove, os.getpid())

    def _remove(self, maker: int) -> None:
        if os.getpid() == maker:
            shutil.rmtree(self.root, ignore_errors=True)


@cache
def _staging_area() -> _StagingArea:
    return _StagingArea()


def stage(source: Path) -> StagedCopy:
    """Returns a copy of a folder or file. Blocking. Raises `TaskError` if it cannot be copied."""
    try:
        real = source.resolve(strict=True)
        entries = list(_entries(real))
    except (OSError, ValueError) as exc:
        raise TaskError(f"{source.name} cannot be brought to the verifier: {exc}") from exc
    place = _staging_area()
    key = (str(real), *((name, s.st_mtime_ns, s.st_size, s.st_mode, s.st_ino) for name, s in entries))
    with place.lock:
        staged = place.known.get(key)
        if staged is None or not staged.path.exists():
            staged = place.known[key] = _copy(real, entries, place.root / str(next(place.numbers)))
        return staged


def stage_programs(source: Path) -> Path:
    """Returns a copy of a folder of Assay's own programs, with their byte code: a sandbox's Python would
    compile them at each start. Blocking."""
    copy, place = stage(source).path, _staging_area()
    with place.lock:
        if copy not in place.compiled:
            for path in copy.rglob("*.py"):
                # Unchecked: the copy does not change, and nothing else writes there.
                py_compile.compile(
                    str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
                )
                cached = path.parent / "__pycache__"
                cached.chmod(0o755)
                for file in cached.iterdir():
                    file.chmod(0o644)
            place.compiled.add(copy)
    return copy


def unstage(folder: Path) -> None:
    """Removes the copies of a folder and of its content. Blocking."""
    place, real = _staging_area(), str(folder.resolve())
    with place.lock:
        gone = [key for key in place.known if (str(key[0]) + "/").startswith(real + "/")]
        copies = [place.known.pop(key) for key in gone]
    for copy in copies:
        if copy.path.is_file():
            copy.path.unlink()
        else:
            shutil.rmtree(copy.path, ignore_errors=True)


@contextlib.contextmanager
def staging_folder() -> Iterator[Path]:
    """Yields an empty folder, which is removed with its content on exit. Blocking."""
    place = _staging_area()
    with place.lock:
        folder = place.root / f"folder-{next(place.numbers)}"
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _entries(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields relative names, parents first and sorted; the top's name is empty."""
    todo, count, size = [""], 0, 0
    while todo:
        name = todo.pop(0)
        path = top / name if name else top
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(top):
            raise ValueError(f"{name} is a link that leads outside")
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise ValueError(f"{name} is neither a file nor a folder")
        count, size = count + 1, size + (status.st_size if stat.S_ISREG(status.st_mode) else 0)
        if count > MOST_ENTRIES or size > MOST_BYTES:
            raise ValueError(f"more than {MOST_ENTRIES} entries or {MOST_BYTES} bytes")
        yield name, status
        if stat.S_ISDIR(status.st_mode) and not path.is_symlink():
            inner = sorted(entry.name for entry in path.iterdir() if entry.name != "__pycache__")
            todo = [f"{name}/{entry}" if name else entry for entry in inner] + todo


def _copy(top: Path, entries: list[tuple[str, os.stat_result]], target: Path) -> StagedCopy:
    hasher = blake3()
    for name, status in entries:
        source, copy = (top / name, target / name) if name else (top, target)
        if stat.S_ISDIR(status.st_mode):
            copy.mkdir()
            copy.chmod(0o755)
            hasher.update(f"folder {name}\0".encode())
            continue
        data = source.read_bytes()
        copy.write_bytes(data)
        copy.chmod(0o755 if status.st_mode & 0o111 else 0o644)
        hasher.update(f"file {name}\0{status.st_mode & 0o111 != 0} {len(data)}\0".encode())
        hasher.update(data)
    with contextlib.suppress(OSError):
        target.parent.chmod(0o755)
    return StagedCopy(target, DIGEST_PREFIX + hasher.hexdigest())
