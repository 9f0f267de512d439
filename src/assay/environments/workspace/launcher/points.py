"""Mount points inside an agent-controlled tree, found or created without ever following a link.

A link, file or device in place of a needed folder is replaced: the platform's mounts take precedence over files of an
agent. Not for reading: `init` resolves paths as the sandbox would.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import NamedTuple


class Owner(NamedTuple):
    """Ids in the sandbox's own user namespace."""

    user: int
    group: int


UNCHANGED = Owner(-1, -1)
"""Leaves ids unchanged."""


class Point(NamedTuple):
    """A name in an open folder, and the created parents (absolute paths in the sandbox)."""

    parent: int
    name: str
    made: tuple[str, ...]

    def enter(self) -> str:
        """Changes into the parent folder and returns the name, which is then a path without links."""
        os.fchdir(self.parent)
        os.close(self.parent)
        return self.name


def _remove(name: str, parent: int, mode: int) -> None:
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def _make(name: str, parent: int, owner: Owner, *, folder: bool) -> None:
    if folder:
        os.mkdir(name, 0o755, dir_fd=parent)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=parent))
    os.chown(name, owner.user, owner.group, dir_fd=parent, follow_symlinks=False)


def mount_point(root: int, path: str, owner: Owner, *, folder: bool = True) -> Point:
    """Returns the mount point for `path` below the open folder `root`; missing parts are created with `owner`.

    Raises `ValueError` for a path that is not absolute, is the root, or has `..` in it.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or not parts or ".." in parts:
        raise ValueError(f"not an absolute path below the root: {path!r}")
    current, made = os.dup(root), []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        needs_folder = folder or not last
        try:
            mode = os.stat(part, dir_fd=current, follow_symlinks=False).st_mode
        except FileNotFoundError:
            mode = 0
        if mode and not (stat.S_ISDIR(mode) if needs_folder else stat.S_ISREG(mode)):
            _remove(part, current, mode)
            mode = 0
        if not mode:
            _make(part, current, owner, folder=needs_folder)
            made.append("/" + "/".join(parts[: index + 1]))
        if not last:
            inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = inner
    return Point(current, parts[-1], tuple(made))
