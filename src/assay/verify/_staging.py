"""Copies host folders for mounting in a verifier's sandbox, so that they are readable there and do not change.

A folder is copied once per process, and again when it changes, below a temporary folder that is removed when the
process ends or, if it was killed, when the next process starts. Links that lead outside and special files are refused.

Invariant: a copy has the content of its source. A change is seen by the times that the system gives it (`ctime`), which
a writer does not choose; content that changed just before it was copied is compared, because a later change may have
the same time.
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
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from assay.errors import TaskError
from assay.records import DIGEST_PREFIX

PREFIX = "assay-verify-"
MOST_ENTRIES = 20_000
MOST_BYTES = 1 << 30
RACY_NS = 100_000_000
"""Within this time two changes of a file may get the same time."""


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
        self.recent: set[tuple[object, ...]] = set()
        """Keys whose source changed just before it was copied."""
        self.programs: dict[Path, Path] = {}
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
    key = (str(real), *((name, s.st_ctime_ns, s.st_mtime_ns, s.st_size, s.st_mode, s.st_ino) for name, s in entries))
    with place.lock:
        staged, began = place.known.get(key), time.time_ns()
        is_known = staged is not None and staged.path.exists()
        if staged is None or not is_known or (key in place.recent and staged.digest != _digest(real, entries)):
            staged = place.known[key] = _copy(real, entries, place.root / str(next(place.numbers)))
            place.recent.add(key)
        if max(status.st_ctime_ns for _, status in entries) < began - RACY_NS:
            place.recent.discard(key)  # a change since then has another time
        return staged


def stage_programs(source: Path) -> Path:
    """Returns a copy of a folder of Assay's own programs, with their byte code: a sandbox's Python would compile them
    at each start. Packages in it are left out, which are other programs. Blocking. It is read once in a process."""
    place = _staging_area()
    with place.lock:
        copy = place.programs.get(source)
        if copy is None or not copy.exists():
            entries = list(_entries(source.resolve(strict=True)))
            others = tuple(
                f"{name.removesuffix('__init__.py')}" for name, _ in entries if name.endswith("/__init__.py")
            )
            own = [(name, status) for name, status in entries if not f"{name}/".startswith(others)]
            copy = place.programs[source] = _copy(source, own, place.root / str(next(place.numbers))).path
            _compile_programs(copy)
        return copy


def _compile_programs(folder: Path) -> None:
    # Unchecked: the copy does not change, and nothing else writes there.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for path in folder.rglob("*.py"):
        compiled = py_compile.compile(str(path), doraise=True, invalidation_mode=unchecked)
        Path(str(compiled)).chmod(0o644)
    for cached in folder.rglob("__pycache__"):
        cached.chmod(0o755)


def unstage(folder: Path) -> None:
    """Removes the copies of a folder and of its content. Blocking."""
    place, real = _staging_area(), str(folder.resolve())
    with place.lock:
        gone = [key for key in place.known if (str(key[0]) + "/").startswith(real + "/")]
        copies = [place.known.pop(key) for key in gone]
        place.recent.difference_update(gone)
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
        copy = target / name if name else target
        data = _hash_entry(hasher, top, name, status)
        if data is None:
            copy.mkdir()
            copy.chmod(0o755)
        else:
            copy.write_bytes(data)
            copy.chmod(0o755 if status.st_mode & 0o111 else 0o644)
    with contextlib.suppress(OSError):
        target.parent.chmod(0o755)
    return StagedCopy(target, DIGEST_PREFIX + hasher.hexdigest())


def folder_digest(folder: Path) -> str:
    """Returns the digest that `stage` gives, without a copy. Blocking. Raises `OSError` or `ValueError`."""
    real = folder.resolve(strict=True)
    return _digest(real, _entries(real))


def _digest(top: Path, entries: Iterable[tuple[str, os.stat_result]]) -> str:
    hasher = blake3()
    for name, status in entries:
        _hash_entry(hasher, top, name, status)
    return DIGEST_PREFIX + hasher.hexdigest()


def _hash_entry(hasher: blake3, top: Path, name: str, status: os.stat_result) -> bytes | None:
    """Adds a file or folder, and returns the file's bytes."""
    if stat.S_ISDIR(status.st_mode):
        hasher.update(f"folder {name}\0".encode())
        return None
    data = (top / name if name else top).read_bytes()
    hasher.update(f"file {name}\0{status.st_mode & 0o111 != 0} {len(data)}\0".encode())
    hasher.update(data)
    return data
