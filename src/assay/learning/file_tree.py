"""Folders of files of strangers: read with bounds into memory, addressed by content, written as a whole or not at all.

Every file is opened relative to its folder's descriptor, so that a link is refused even where it replaces a folder
during the reading; special files and names that are not UTF-8 are refused, numbers and sizes are bounded, and nothing
is executed.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError, boundary
from assay.records import digest_bytes, digest_record


class TreeLimits(NamedTuple):
    """Limits of a folder, and its noun in messages."""

    noun: str
    entries: int
    size: int
    """Bytes of all files."""
    depth: int = 8
    ignored: frozenset[str] = frozenset()
    """Names of folders that are left out, such as `__pycache__`."""


class FileTree(msgspec.Struct, frozen=True):
    """Files of a folder."""

    files: dict[str, bytes]
    """Content by path below the folder, with `/`."""
    executable: frozenset[str] = frozenset()
    """Paths of the files that are executable."""

    @property
    def digest(self) -> str:
        """Returns the content address of all files."""
        marks = {path: "+x" for path in self.executable}
        return digest_record(
            {path: digest_bytes(data) + marks.get(path, "") for path, data in sorted(self.files.items())}
        )


def read_tree(folder: Path, limits: TreeLimits, hint: str = "") -> FileTree:
    """Reads a folder. Raises `UserError` if it cannot be read, exceeds a limit or holds a link."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UserError(f"{folder} cannot be read ({reason}): {hint or 'name a folder'}") from exc
    reader = _TreeReader(folder, limits)
    try:
        reader.read_folder(descriptor, "", 0)
    finally:
        os.close(descriptor)
    return FileTree(reader.files, frozenset(reader.executable))


def place_tree(tree: FileTree, folder: Path) -> None:
    """Writes the files beside the new folder and renames them, so that a folder is there in full or not at all.

    Raises:
        FileExistsError: The folder exists.
        StoreError: It cannot be written, or a path leads out of it.
    """
    for path in tree.files:
        if not path or path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise StoreError(f"{folder.name}: the path {path[:80]!r} leads out of the folder")
    if os.path.lexists(folder):
        raise FileExistsError(folder)
    with boundary(StoreError, f"writing {folder}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as temporary:
            new = Path(temporary) / "tree"
            new.mkdir()
            for path, data in sorted(tree.files.items()):
                file = new / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                if path in tree.executable:
                    file.chmod(file.stat().st_mode | 0o111)
            is_placed = _rename(new, folder)
    if not is_placed:
        raise FileExistsError(folder)


class _TreeReader:
    """Reads the files of one folder into memory, within limits."""

    def __init__(self, folder: Path, limits: TreeLimits) -> None:
        self.files: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self._folder, self._limits, self._entries, self._left = folder, limits, 0, limits.size

    def read_folder(self, descriptor: int, below: str, depth: int) -> None:
        """Reads an open folder, whose path below the root ends with `/`. Raises `UserError`."""
        if depth > self._limits.depth:
            raise UserError(
                f"{self._folder / below} is nested deeper than {self._limits.depth} folders, the limit for "
                f"{self._limits.noun}"
            )
        for name in self._names(descriptor, below):
            path = below + name
            try:
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
            except OSError as exc:
                raise UserError(self._why_not_opened(path, exc)) from exc
            try:
                mode = os.fstat(opened).st_mode
                if stat.S_ISDIR(mode):
                    self.read_folder(opened, path + "/", depth + 1)
                elif stat.S_ISREG(mode):
                    self._read_file(opened, path, mode)
                else:
                    raise UserError(
                        f"{self._folder / path} is neither file nor folder: {self._limits.noun} holds only files "
                        "and folders"
                    )
            finally:
                os.close(opened)

    def _names(self, descriptor: int, below: str) -> list[str]:
        names = list[str]()
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if entry.name in self._limits.ignored and entry.is_dir(follow_symlinks=False):
                        continue
                    self._entries += 1
                    if self._entries > self._limits.entries:
                        raise UserError(
                            f"{self._folder} holds more than {self._limits.entries:,} files and folders, the limit for "
                            f"{self._limits.noun}: "
                            "remove what does not belong to it"
                        )
                    names.append(entry.name)
        except OSError as exc:
            raise UserError(f"{self._folder / below} cannot be read: {exc.strerror}") from exc
        for name in names:
            if not name.isprintable():  # bytes that are not UTF-8 stand as surrogates, which are not printable either
                raise UserError(
                    f"{self._folder / below} holds the name {name!a}: rename it to printable UTF-8 characters"
                )
        return sorted(names)

    def _why_not_opened(self, path: str, exc: OSError) -> str:
        if exc.errno == errno.ELOOP:
            return f"{self._folder / path} is a link: {self._limits.noun} holds its files itself; copy the file there"
        if exc.errno == errno.ENXIO:
            return f"{self._folder / path} is neither file nor folder: {self._limits.noun} holds only files and folders"
        return f"{self._folder / path} cannot be read: {exc.strerror}"

    def _read_file(self, descriptor: int, path: str, mode: int) -> None:
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(self._left + 1)
        except OSError as exc:
            raise UserError(f"{self._folder / path} cannot be read: {exc.strerror}") from exc
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{self._folder / path}: {self._limits.noun} is larger than {self._limits.size >> 20} MiB, the limit: "
                "remove large assets"
            )
        self.files[path] = data
        if mode & stat.S_IXUSR:
            self.executable.add(path)


def _rename(new: Path, folder: Path) -> bool:
    try:
        new.rename(folder)
    except OSError as exc:
        if exc.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):  # it was made meanwhile
            return False
        raise
    return True
