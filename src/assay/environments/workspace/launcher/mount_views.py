"""Read-only views of host folders and files whose mount entries contain no host path.

A bind mount shows its path in the host's file system in every sandbox's mountinfo; an overlay shows its
own layers, which are paths of the launcher. Not for writable layers.

The machine's mounts, which are read here, are not left in memory: a command can be a fork of this process (`init`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import syscalls as sys_

BLANK = "/blank/folder"
"""The second lower layer: an overlay without a writable one needs two."""
VIEW = "/v"
"""Temporary mount point of the parent of a single file."""
_FLAGS = sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NODEV
HIDDEN_IN_PROC = ("cmdline", "bootconfig", "swaps", "sys/kernel/core_pattern")
"""Files of /proc with host information: boot parameters and names of files."""


def mount_folder(source: str, point: str) -> bool:
    """Mounts a view of a folder; returns False if the kernel refuses it or mounts below the folder would be lost."""
    if _has_mounts_below(source):
        return False
    try:
        sys_.mount("overlay", point, "overlay", _FLAGS, f"lowerdir={source}:{BLANK},userxattr")
    except OSError:
        return False
    return True


def mount_file(source: str, point: str) -> bool:
    """Binds one file from a view of its folder; returns False if the kernel refuses it, or if the file itself is a
    mount, below which a view would see."""
    folder, _, name = source.rpartition("/")
    if _has_mounts_below(folder):
        return False
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # mount points are relative to the current folder
    try:
        sys_.mount("overlay", VIEW, "overlay", _FLAGS, f"lowerdir={folder}:{BLANK},userxattr")
        os.fchdir(here)
        sys_.mount(f"{VIEW}/{name}", point, None, sys_.MS_BIND)
        sys_.unmount(VIEW)
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def names_host_folders(path: str) -> bool:
    """Returns True if the options of the mount that contains `path` list host folders, as a container's root does."""
    parts = path.rstrip("/").split("/")
    with _mounts() as table:
        for count in range(len(parts), 0, -1):
            found = _options_at("/".join(parts[:count]) or "/", table)
            if found is not None:
                return table.find(b"dir=", *found) >= 0
    return False


def _options_at(point: str, table: bytearray) -> tuple[int, int] | None:
    """Returns the range of the options of the file system that was mounted last at a mount point; None for none."""
    found = None
    for at in _find_points(f"{point} ", table):
        end = table.find(b"\n", at)
        found = table.rfind(b" ", at, end), end
    return found


def _find_points(beginning: str, table: bytearray) -> Iterator[int]:
    """Yields where a row has a mount point that begins so: its fifth field."""
    wanted = b" " + os.fsencode(beginning)
    at = table.find(wanted)
    while at >= 0:
        if table.count(b" ", table.rfind(b"\n", 0, at) + 1, at) == 3:
            yield at
        at = table.find(wanted, at + 1)


def hide_in_proc(proc: str) -> None:
    """Covers files with host information in a fresh /proc."""
    for name in HIDDEN_IN_PROC:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            sys_.mount("/blank/file", path, None, sys_.MS_BIND)


def _has_mounts_below(folder: str) -> bool:
    with _mounts() as table:
        return any(True for _ in _find_points(f"{folder}/", table))


@contextmanager
def _mounts() -> Iterator[bytearray]:
    """Yields the rows of every mount point of this process, of which nothing is copied, and overwrites them."""
    table, size = bytearray(1 << 16), 0
    fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while count := os.readv(fd, [memoryview(table)[size:]]):
            size += count
            if size == len(table):
                table = _longer(table)
        yield table
    finally:
        os.close(fd)
        table[:] = bytes(len(table))


def _longer(table: bytearray) -> bytearray:
    longer = bytearray(2 * len(table))
    longer[: len(table)] = table
    table[:] = bytes(len(table))
    return longer
