"""Read-only views of host folders and files whose mount entries contain no host path.

A bind mount shows its path in the host's file system in every sandbox's mountinfo; an overlay shows its
own layers, which are paths of the launcher. Not for writable layers.
"""

from __future__ import annotations

import os

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
    best = ("", "")
    for target, options in _mounts():
        if (path + "/").startswith(target.rstrip("/") + "/") and len(target) >= len(best[0]):
            best = (target, options)
    return "dir=" in best[1]


def hide_in_proc(proc: str) -> None:
    """Covers files with host information in a fresh /proc."""
    for name in HIDDEN_IN_PROC:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            sys_.mount("/blank/file", path, None, sys_.MS_BIND)


def _has_mounts_below(folder: str) -> bool:
    return any(target.startswith(folder + "/") for target, _ in _mounts())


def _mounts() -> list[tuple[str, str]]:
    """Returns every mount point of this process, with the options of its file system."""
    with open("/proc/self/mountinfo", "rb") as handle:
        rows = handle.read().decode(errors="replace").splitlines()
    return [(row.split(" ")[4], row.rpartition(" ")[2]) for row in rows]
