"""Image layers as host folders, resolved as in the sandbox: stacked, with links resolved only inside.

Used when an image is built, never on an agent's files: no other process writes to these folders. Sources are
hostile nevertheless (a task's folder, an archive): no name and no link leads outside, sizes are limited,
devices and set-user-id bits are removed.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from blake3 import blake3

MAX_FILES = 500_000
MAX_BYTES = 16 * 1024**3
_MAX_LINKS = 40
_FOLDER_MODES = {"tmp": 0o1777, "var/tmp": 0o1777}


class ResolvedPath(NamedTuple):
    """A resolved path: its name without links, relative to the root, and the host file, if it exists."""

    path: str
    host: Path | None


class Source(NamedTuple):
    """A host file with its relative path at the destination (`""` for the top itself)."""

    path: str
    host: Path


class LayerStack:
    """A stack of layers, lowest first, with the links of the base that is not among the layers."""

    def __init__(self, folders: tuple[Path, ...], links: dict[str, str] | None = None) -> None:
        self.folders = folders
        self._links = links or {}

    def find(self, path: str) -> Path | None:
        """Returns the topmost host file for a path whose parents are not links; None if it is absent or removed."""
        parts = path.split("/") if path else []
        lowest, topmost = 0, None
        for count in range(len(parts) + 1):
            topmost, lowest = self._topmost("/".join(parts[:count]), lowest)
            if topmost is None:
                return None
        return topmost

    def _topmost(self, partial: str, lowest: int) -> tuple[Path | None, int]:
        """Returns the topmost host file for a path, and the lowest layer that is visible below it."""
        topmost = None
        for index in range(len(self.folders) - 1, lowest - 1, -1):
            host = self.folders[index] / partial
            mode = _mode(host)
            if mode is None:
                continue
            if stat.S_ISCHR(mode):
                return topmost, index + 1
            topmost = topmost or host
            if not stat.S_ISDIR(mode) or is_opaque(host):
                return topmost, index
        return topmost, lowest

    def resolve(self, path: str) -> ResolvedPath:
        """Resolves every link of an absolute path, including the last, as the sandbox would. Raises `ValueError`."""
        todo = [p for p in reversed(path.split("/")) if p not in ("", ".")]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            name = "/".join([*done, part])
            target = self._link(name)
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise ValueError(f"{path}: too many links")
            done = [] if target.startswith("/") else done
            todo += [p for p in reversed(target.split("/")) if p not in ("", ".")]
        resolved = "/".join(done)
        return ResolvedPath(resolved, self.find(resolved) if self.folders else None)

    def _link(self, name: str) -> str | None:
        host = self.find(name) if self.folders else None
        if host is None:
            return self._links.get(name)
        return str(host.readlink()) if host.is_symlink() else None

    def children(self, path: str) -> list[str]:
        """Returns the names in a folder, over all layers."""
        names = {
            entry.name for folder in self.folders if _is_folder(folder / path) for entry in (folder / path).iterdir()
        }
        return sorted(name for name in names if self.find(f"{path}/{name}" if path else name) is not None)

    def mode(self, path: str) -> int:
        """Returns the permission bits of a folder, or those with which it is created."""
        host = self.find(path) if self.folders else None
        return stat.S_IMODE(host.lstat().st_mode) if host is not None else _FOLDER_MODES.get(path, 0o755)


def _mode(host: Path) -> int | None:
    try:
        return host.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_folder(host: Path) -> bool:
    mode = _mode(host)
    return mode is not None and stat.S_ISDIR(mode)


def is_opaque(host: Path) -> bool:
    try:
        return os.getxattr(host, "user.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False


def walk(host: Path) -> Iterator[Source]:
    """Yields a file, or a folder and its content, parents first. Raises `ValueError` for special or too large files."""
    count = size = 0
    pending = [Source("", host)]
    while pending:
        source = pending.pop()
        status = source.host.lstat()
        count, size = count + 1, size + (status.st_size if stat.S_ISREG(status.st_mode) else 0)
        if count > MAX_FILES or size > MAX_BYTES:
            raise ValueError(f"{host.name} is too large: at most {MAX_FILES} files and {MAX_BYTES >> 30} GiB")
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise ValueError(f"{source.path or host.name} is neither file, folder nor link")
        yield source
        if stat.S_ISDIR(status.st_mode):
            for name in sorted((entry.name for entry in source.host.iterdir()), reverse=True):
                pending.append(Source(f"{source.path}/{name}" if source.path else name, source.host / name))


def install(layer: Path, below: LayerStack, source: Path, path: str, mode: int | None = None) -> None:
    """Copies one file, link or (empty) folder into a layer at a path whose parents are not links. Existing folders, and
    parents in lower layers, keep their mode."""
    _make_parents(layer, below, path)
    target = layer / path
    status = source.lstat()
    existing = _mode(target)
    if stat.S_ISDIR(status.st_mode):
        if existing is None or not stat.S_ISDIR(existing):
            _remove(target)
            target.mkdir()
            target.chmod(mode or _permission_bits(below.mode(path) if below.find(path) else status.st_mode))
        return
    if existing is not None and stat.S_ISDIR(existing):
        raise ValueError(f"/{path} is a folder")
    _remove(target)
    if stat.S_ISLNK(status.st_mode):
        target.symlink_to(source.readlink())
        return
    shutil.copyfile(source, target, follow_symlinks=False)
    target.chmod(mode or _permission_bits(status.st_mode))


def _make_parents(layer: Path, below: LayerStack, path: str) -> None:
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        partial = "/".join(parts[:count])
        if _mode(layer / partial) is None:
            (layer / partial).mkdir()
            (layer / partial).chmod(below.mode(partial))


def _permission_bits(mode: int) -> int:
    """Returns permission bits without set-user-id and set-group-id; the sticky bit of shared folders stays."""
    return stat.S_IMODE(mode) & 0o1777


def _remove(target: Path) -> None:
    if _mode(target) is not None:
        shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()


class LayerWriter:
    """Writes a layer from a list of changes: paths are relative to the root, and no parent is a link."""

    def __init__(self, layer: Path, below: LayerStack) -> None:
        self._layer, self._below = layer, below
        self._modes: dict[Path, int] = {}

    def _make_parents_of(self, path: str) -> Path:
        _make_parents(self._layer, self._below, path)
        return self._layer / path

    def remove(self, path: str) -> None:
        """Marks a path of the lower layers as removed."""
        os.mknod(self._make_parents_of(path), stat.S_IFCHR, 0)

    def folder(self, path: str, mode: int) -> None:
        """Creates a folder; `finish` sets its mode."""
        target = self._make_parents_of(path)
        target.mkdir(exist_ok=True)
        self._modes[target] = _permission_bits(mode)

    def link(self, path: str, target: str) -> None:
        self._make_parents_of(path).symlink_to(target)

    def file(self, path: str, data: IO[bytes], mode: int) -> None:
        target = self._make_parents_of(path)
        with target.open("xb") as out:
            shutil.copyfileobj(data, out)
        target.chmod(_permission_bits(mode))

    def finish(self) -> None:
        """Sets the modes of folders, deepest first."""
        for target, mode in sorted(self._modes.items(), reverse=True):
            target.chmod(mode)


def extract(archive: Path, target: Path) -> tuple[str, ...]:
    """Unpacks a tar archive into the empty folder `target`; returns skipped members. Raises `ValueError` if unsafe."""
    left_out, count, size = [], 0, 0
    try:
        with tarfile.open(archive) as file:
            for member in file:
                count, size = count + 1, size + max(member.size, 0)
                if count > MAX_FILES or size > MAX_BYTES:
                    raise ValueError(
                        f"{archive.name}: at most {MAX_FILES} files and {MAX_BYTES >> 30} GiB are unpacked"
                    )
                if not _unpack(file, member, target):
                    left_out.append(f"{member.name[:200]} was left out: it is a device, pipe or unknown kind")
    except (tarfile.TarError, EOFError, OSError, UnicodeError) as exc:
        raise ValueError(f"{archive.name} cannot be unpacked: {exc}") from exc
    return tuple(left_out)


def _unpack(file: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> bool:
    name = _require_inside(member.name)
    if not name:
        return True
    destination = _real_parent(target, name)
    if member.isdir():
        if _mode(destination) is None or not stat.S_ISDIR(destination.lstat().st_mode):
            _remove(destination)
            destination.mkdir()
        destination.chmod(_permission_bits(member.mode) | 0o700)
        return True
    if not (member.isreg() or member.issym() or member.islnk()):
        return False
    _remove(destination)
    if member.issym():
        destination.symlink_to(member.linkname)
    elif member.islnk():
        origin = _real_parent(target, _require_inside(member.linkname))
        if not stat.S_ISREG(_mode(origin) or 0):
            raise ValueError(
                f"{member.name[:200]} links to {member.linkname[:200]}, which is not a file of the archive"
            )
        shutil.copy(origin, destination, follow_symlinks=False)
    else:
        data = file.extractfile(member)
        with destination.open("xb") as out:
            shutil.copyfileobj(data, out)  # type: ignore[arg-type]
        destination.chmod(_permission_bits(member.mode) | 0o400)
    return True


def _require_inside(name: str) -> str:
    clean = posixpath.normpath("/" + name).lstrip("/")
    if "\0" in name or ".." in name.split("/"):
        raise ValueError(f"the archive's member {name[:200]!r} leads outside")
    return "" if clean == "." else clean


def _real_parent(target: Path, name: str) -> Path:
    """Returns the host path for a member after creating its parents; links among them are resolved inside `target`."""
    head, _, last = name.rpartition("/")
    parent = LayerStack((target,)).resolve("/" + head)
    folder = target / parent.path
    current = target
    for part in parent.path.split("/") if parent.path else []:
        current = current / part
        mode = _mode(current)
        if mode is None:
            current.mkdir(mode=0o755)
        elif not stat.S_ISDIR(mode):
            raise ValueError(f"the archive's member {name[:200]!r} lies below a file")
    return folder / last


def content_digest(layer: Path) -> str:
    """Returns the content address of a layer over paths, kinds, permission bits, bytes and link targets."""
    hasher = blake3()
    for source in sorted(walk_sealed(layer)):
        status = source.host.lstat()
        entry: list[object] = [source.path, stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)]
        if stat.S_ISREG(status.st_mode):
            entry.append(blake3(max_threads=1).update_mmap(source.host).hexdigest())
        elif stat.S_ISLNK(status.st_mode):
            entry = [source.path, stat.S_IFLNK, str(source.host.readlink())]
        elif stat.S_ISDIR(status.st_mode):
            entry.append(is_opaque(source.host))
        hasher.update(msgspec.json.encode(entry))
    return hasher.hexdigest()[:32]


def walk_sealed(layer: Path) -> Iterator[Source]:
    """Yields everything in a finished layer, including whiteouts (character devices 0:0)."""
    for parent, folders, files in os.walk(layer):
        for name in (*folders, *files):
            host = Path(parent) / name
            yield Source(host.relative_to(layer).as_posix(), host)
