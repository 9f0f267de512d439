"""Read-only views of host folders and files whose mount entries name no host path.

A bind mount shows, in every sandbox's mountinfo, where in the host's file system it comes from; an overlay shows its
own layers, which are places of the launcher. Not for writable layers.
"""

from __future__ import annotations

import os

from . import syscalls as sys_

BLANK = "/blank/folder"
"""The second lower layer: an overlay without a writable one needs two."""
VIEW = "/v"
"""Where the parent of a single file is mounted, until the file is bound from there."""
_FLAGS = sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NODEV
HIDDEN_IN_PROC = ("cmdline", "bootconfig", "swaps", "sys/kernel/core_pattern")
"""What tells of the host: how it was booted, and names of its files."""


def mount_folder(source: str, point: str) -> bool:
    """Mounts a view of a folder; False where the kernel refuses one, or mounts below the folder would be lost."""
    if _has_mounts_below(source):
        return False
    try:
        sys_.mount("overlay", point, "overlay", _FLAGS, f"lowerdir={source}:{BLANK},userxattr")
    except OSError:
        return False
    return True


def mount_file(source: str, point: str) -> bool:
    """Binds one file out of a view of its folder; False where the kernel refuses that, or the file was bound there
    alone: a view would show what is below that mount."""
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
    """Returns whether the mount that has `path` lists folders of the host among its options, as a container's root."""
    best = ("", "")
    for target, options in _mounts():
        if (path + "/").startswith(target.rstrip("/") + "/") and len(target) >= len(best[0]):
            best = (target, options)
    return "dir=" in best[1]


def hide_in_proc(proc: str) -> None:
    """Covers what tells of the host in a fresh /proc."""
    for name in HIDDEN_IN_PROC:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            sys_.mount("/blank/file", path, None, sys_.MS_BIND)


def _has_mounts_below(folder: str) -> bool:
    return any(target.startswith(folder + "/") for target, _ in _mounts())


def _mounts() -> list[tuple[str, str]]:
    """Every mount point of this process, with the options of its file system."""
    with open("/proc/self/mountinfo", "rb") as handle:
        rows = handle.read().decode(errors="replace").splitlines()
    return [(row.split(" ")[4], row.rpartition(" ")[2]) for row in rows]
