"""File systems as plain folders: the state of backends that cannot mount an overlay.

An image is merged into a folder once (`Template`); each workspace gets a copy; a snapshot is another copy. So opening
costs in proportion to the image's size, and the first digest reads it once. Blocking: run in a thread.

Invariant: no path is followed through a link when folders are merged, scanned or copied.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from assay.environments.interface import Change
from assay.environments.workspace._entries import HashCache, PathEntry, decode_name, is_opaque, is_whiteout
from assay.environments.workspace.state import StackedImage, compare_entries, identify_paths, scan_folder

_PRIVATE = re.compile(r"-(\d+)-(\d*)-[^-]*$")


def private_folder(name: str, parent: Path | None) -> Path:
    """Creates a folder for this process and removes folders of processes that were killed."""
    folder = parent or Path(tempfile.gettempdir())
    for path in folder.glob(f"assay-{name}-*"):
        match = _PRIVATE.search(path.name)
        if match and not path.is_symlink() and start_time(int(match[1])) != match[2]:
            remove_folder(path)
    created = Path(tempfile.mkdtemp(prefix=f"assay-{name}-{os.getpid()}-{start_time(os.getpid())}-", dir=folder))
    created.chmod(0o711)
    return created


def start_time(pid: int) -> str:
    """Returns the start time of a process in ticks; empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


class Template:
    """An image as one merged, immutable folder."""

    def __init__(self, folder: Path, cache: HashCache) -> None:
        self.folder = folder
        self._top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.view = StackedImage([self._top], cache)
        self.entries: dict[str, PathEntry] = scan_folder(self._top, cache)

    def close(self) -> None:
        """Closes its descriptor; the folder stays."""
        os.close(self._top)


def etc_folder(template: Path) -> Path:
    """Returns the path of the read-only /etc of a template."""
    return template.with_name(template.name + "-etc")


class FolderTree:
    """The folder of one workspace, over the merged image `template`.

    The state is without `hidden` paths, which mounts, masks or fresh folders cover once the workspace has started, and
    the platform's folders, `created`. Both are known by path and inode, as in `OverlayState`.
    """

    def __init__(self, folder: Path, template: Template, hidden: frozenset[str], created: frozenset[str]) -> None:
        self.folder = folder
        self.template = template
        self._paths = hidden, created
        self._hidden: dict[str, int] = {}
        self._platform_folders: dict[str, int] = {}
        self._cache = HashCache()

    def note_covered(self) -> None:
        """Identifies the hidden paths and the platform's folders. Call it before any command."""
        top = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._hidden, self._platform_folders = (identify_paths(top, paths) for paths in self._paths)
        finally:
            os.close(top)

    def changes(self, *, anew: bool) -> tuple[Change, ...]:
        """Returns all differences from the image, sorted by path; `anew`: all files are hashed, also those whose size
        and times are as before."""
        if anew:
            self._cache = HashCache()
        top = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            hidden, platform = _same_paths(top, self._hidden), _same_paths(top, self._platform_folders)
            now = scan_folder(top, self._cache, hidden=hidden)
        finally:
            os.close(top)
        found = compare_entries(self._image_entries(hidden), now)
        return tuple(one for one in found if (one.kind, one.type) != ("added", "directory") or one.path not in platform)

    def _image_entries(self, hidden: frozenset[str]) -> dict[str, PathEntry]:
        entries = self.template.entries
        if not hidden:
            return entries
        inside = tuple(f"{path}/" for path in hidden)
        return {path: one for path, one in entries.items() if not f"{path}/".startswith(inside)}


def _same_paths(top: int, known: Mapping[str, int]) -> frozenset[str]:
    """Returns the paths at which still the same files and folders are."""
    now = identify_paths(top, known)
    return frozenset(path for path, inode in known.items() if now.get(path) == inode)


def copy_folder(source: Path, target: Path) -> None:
    """Copies a folder exactly (modes, links, owners), sharing blocks if possible. `target` must not exist."""
    command = ["cp", "-a", "--reflink=auto", "--", str(source), str(target)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise OSError(f"{source.name} could not be copied: {result.stderr.strip()[-300:]}")


def remove_folder(folder: Path) -> None:
    """Removes a tree, including folders without permissions. Ignores files that cannot be removed.

    Modes are changed inside the tree alone: the folder it lies in is often `/tmp`, which everybody needs.
    """

    retried: set[str] = set()

    def force(function: Callable[[str], object], path: str, _: object) -> None:
        if Path(path) != folder:
            with contextlib.suppress(OSError):
                Path(path).parent.chmod(0o700)
        with contextlib.suppress(OSError):
            if not Path(path).is_symlink():
                Path(path).chmod(0o700)
            if function in (os.unlink, os.rmdir):
                function(path)
            elif path not in retried:  # a folder could not be read
                retried.add(path)
                shutil.rmtree(path, onerror=force)

    if folder.exists():
        shutil.rmtree(folder, onerror=force)
        shutil.rmtree(folder, ignore_errors=True)


def merge_layer(root: Path, layer: Path) -> None:
    """Applies a layer to a folder: files replace, folders merge, whiteouts remove."""
    for parent, folders, files in os.walk(layer):
        inside = root / Path(parent).relative_to(layer)
        if inside != root:
            _merge_folder(inside, Path(parent))
        for name in (*folders, *files):
            source, target = Path(parent) / name, inside / name
            status = source.lstat()
            if is_whiteout(status):
                _remove_path(target)
            elif not stat.S_ISDIR(status.st_mode):
                _remove_path(target)
                shutil.copy2(source, target, follow_symlinks=False)


def _merge_folder(target: Path, source: Path) -> None:
    top = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_opaque_folder = is_opaque(top)
    finally:
        os.close(top)
    if is_opaque_folder or target.is_symlink() or not target.is_dir():
        _remove_path(target)
    target.mkdir(exist_ok=True)
    target.chmod(stat.S_IMODE(source.stat().st_mode))


def _remove_path(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def apply_changes(root: Path, changes: Iterable[Change], read_blob: Callable[[str], bytes]) -> None:
    """Turns a copy of an image into the state that a manifest describes. Raises `ValueError` for an invalid one."""
    from assay.records import digest_bytes

    modes: list[tuple[Path, int]] = []
    for change in sorted(changes, key=lambda item: item.path):
        path = _resolve_change(root, change)
        if change.kind == "removed" or (change.type != "directory" and change.kind == "changed"):
            _remove_path(path)
        if change.kind == "removed" or change.type == "other":
            continue
        if change.type == "directory":
            if path.is_symlink() or not path.is_dir():
                _remove_path(path)
                path.mkdir()
            modes.append((path, change.mode or 0o755))
            continue
        data = read_blob(change.digest or "")
        if digest_bytes(data) != change.digest:
            raise ValueError(f"{change.path}: the stored bytes are not those of {change.digest}")
        if change.type == "symlink":
            path.symlink_to(os.fsdecode(data))
        else:
            path.write_bytes(data)
            path.chmod((change.mode or 0o644) & 0o1777)
    for path, mode in reversed(modes):
        path.chmod(mode & 0o1777)


def _resolve_change(root: Path, change: Change) -> Path:
    """Returns the host path of a change; refuses paths that leave the folder, also through a link. A folder that the
    manifest lacks was made by the platform, for a working folder."""
    parts = decode_name(change.path).split("/")
    if parts[0] != "" or {"", ".", ".."} & set(parts[1:]):
        raise ValueError(f"a manifest path that is not below the root: {change.path!r}")
    path = root
    for part in parts[1:-1]:
        path = path / part
        if not os.path.lexists(path):
            path.mkdir(mode=0o755)
        if path.is_symlink() or not path.is_dir():
            raise ValueError(f"the manifest has {change.path!r} but not its folder")
    return path / parts[-1]


def change_owner(root: Path, owner: int) -> None:
    """Makes `owner` the owner of a whole folder."""
    os.chown(root, owner, owner, follow_symlinks=False)
    for parent, folders, files in os.walk(root):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, owner, owner, follow_symlinks=False)
