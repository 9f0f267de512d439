"""Host half of moving trees into and out of a sandbox. Blocking: runs in a thread.

Upload reads the host: nothing outside the named source is read, and a link that leads out of it raises. Download
writes the host: every path is checked, nothing is opened through a link, and links are kept only if they stay
inside what is downloaded.
"""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path

from assay.environments.workspace.launcher import frames


def _check_links(top: Path) -> None:
    """Raises `ValueError` for a link below `top` that leads outside of it."""
    real = top.resolve(strict=True)
    for folder, folders, names in os.walk(real):
        for name in (*folders, *names):
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(real):
                raise ValueError(f"{path} is a link that leads outside {top}; remove it or copy its target")


def _check_source(source: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        _check_links(source)
    elif not stat.S_ISREG(mode):
        raise ValueError(f"{source} is neither a file nor a folder")


def send_path(source: Path, fd: int) -> None:
    """Sends a host file or folder as frames into the pipe `fd`, and closes it."""
    with open(fd, "wb", buffering=frames.CHUNK) as stream:
        try:
            real = source.resolve(strict=True)
            mode = real.stat().st_mode
            _check_source(source, mode)
            parent = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                frames.send_entry(stream, parent, real.name, "")
            finally:
                os.close(parent)
            frames.write_frame(stream, {"end": True})
        except (OSError, ValueError) as exc:
            if not isinstance(exc, BrokenPipeError):
                frames.write_frame(stream, {"error": "the host stopped", "errno": 5})
            raise


def receive_path(fd: int, target: Path, most_bytes: int) -> None:
    """Writes the tree from the pipe `fd` to `target`, and closes the pipe."""
    real = target.parent.resolve() / target.name
    real.parent.mkdir(parents=True, exist_ok=True)
    parent = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(fd, "rb", buffering=frames.CHUNK) as stream:
            frames.receive_tree(stream, parent, real.name, most_bytes=most_bytes, keep_link=_is_inside)
    finally:
        os.close(parent)


def _is_inside(path: str, target: str) -> bool:
    """Returns True if a link at the relative `path` with this target stays inside its tree."""
    if not path or target.startswith("/"):
        return False
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return resolved != ".." and not resolved.startswith("../")
