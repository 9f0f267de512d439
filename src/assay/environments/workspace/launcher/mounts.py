"""A sandbox's mount tree, built by its own first process inside its own user and mount namespaces.

Invariant: after `enter` nothing of the launcher's tree is reachable, and every mount is nosuid and nodev (except the
six plain devices). `Plan` is created by the launcher; its paths are the launcher's, its targets the sandbox's.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from . import mount_views
from . import syscalls as sys_
from .base import DEVICE_LINKS, DEVICES, PROC_READ_ONLY, SYSTEM
from .points import UNCHANGED, Owner, mount_point

NEW_ROOT = "/n"
_PLAIN = sys_.MS_NOSUID | sys_.MS_NODEV
_READ_ONLY_TREE = 1 | 2 | 4


class Plan(NamedTuple):
    """Mounts of one sandbox."""

    lowers: tuple[str, ...]
    """Highest first."""
    upper: str
    """Folder that contains `u` and `w`."""
    system: str | None
    """Path of the host's tree, for its system folders; None for a whole-root image."""
    skeleton: str
    image: tuple[str, ...]
    """The image's layers among `lowers`, highest first: they may add to system folders."""
    mounts: tuple[tuple[str, str], ...]
    masks: tuple[str, ...]
    tmpfs: tuple[str, ...]
    folders: tuple[str, ...]
    """Folders that must exist and belong to the user: the working directory and home."""
    tmp_bytes: int | None
    name_servers: bool
    """Mount the copy of the host's resolv.conf."""
    owner: Owner
    root: Owner
    """Owner of created parents; both are `UNCHANGED` if only one id is mapped."""


class _Tree:
    """The tree under construction, and the paths created in its writable layer."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.root = os.open(NEW_ROOT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.made: list[str] = []

    def point(self, path: str, owner: Owner | None = None, *, folder: bool = True) -> str:
        """Finds or creates the mount point for `path`, and returns its name in the then current folder."""
        place = mount_point(self.root, path, owner or self._owner, folder=folder)
        self.made += place.made
        return place.enter()


def _system_folder(plan: Plan, tree: _Tree, name: str) -> None:
    """Mounts one system folder read-only; layers of the image with that folder are stacked over the host's."""
    source = f"{plan.skeleton}/etc" if name == "etc" else f"{plan.system}/{name}"
    if not os.path.isdir(source) or os.path.islink(source):
        return
    layers = [f"{layer}/{name}" for layer in plan.image]
    layers = [layer for layer in layers if os.path.isdir(layer) and not os.path.islink(layer)]
    point = tree.point("/" + name)
    if layers:
        lower = ":".join([*layers, source])
        sys_.mount("overlay", point, "overlay", sys_.MS_RDONLY | _PLAIN, f"lowerdir={lower},userxattr")
    elif not (mount_views.names_host_folders(source) and mount_views.mount_folder(source, point)):
        sys_.mount(source, point, None, sys_.MS_BIND | sys_.MS_REC)
        sys_.restrict_tree(point, _READ_ONLY_TREE)


def _devices(tree: _Tree, devices: str) -> None:
    point = tree.point("/dev")
    sys_.mount("tmpfs", point, "tmpfs", sys_.MS_NOSUID | sys_.MS_NOEXEC, "size=64k,mode=755")
    os.chdir(point)
    for name in DEVICES:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o666))
        sys_.mount(f"{devices}/{name}", name, None, sys_.MS_BIND)
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, name)
    os.mkdir("pts")
    os.mkdir("shm")
    sys_.mount("devpts", "pts", "devpts", sys_.MS_NOSUID | sys_.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")


def _scratch(tree: _Tree, path: str, size: int | None, mode: str, owner: Owner) -> None:
    limits = f"size={size},nr_inodes={max(1024, size // 4096)}," if size else ""
    ids = f",uid={owner.user},gid={owner.group}" if owner != UNCHANGED else ""
    options = f"{limits}mode={mode}{ids}"
    sys_.mount("tmpfs", tree.point(path), "tmpfs", _PLAIN, options)


def _mask(tree: _Tree, path: str, blank: str) -> None:
    """Covers an existing path with an empty file or folder; links are resolved as in the sandbox."""
    resolve = sys_.RESOLVE_IN_ROOT | sys_.RESOLVE_NO_MAGICLINKS
    try:
        place = sys_.openat2(tree.root, path.lstrip("/"), os.O_PATH, resolve)
    except FileNotFoundError:
        return
    kind = "folder" if stat.S_ISDIR(os.fstat(place).st_mode) else "file"
    sys_.mount(f"{blank}/{kind}", f"/proc/self/fd/{place}", None, sys_.MS_BIND)
    os.close(place)


def _mount_requested(plan: Plan, tree: _Tree) -> None:
    """Adds the caller's mounts, owned folders and fresh folders."""
    for source, target in plan.mounts:
        is_folder = os.path.isdir(source)
        point = tree.point(target, folder=is_folder)
        if not (mount_views.mount_folder if is_folder else mount_views.mount_file)(source, point):
            sys_.mount(source, point, None, sys_.MS_BIND | sys_.MS_REC)
        sys_.restrict_tree(point, _READ_ONLY_TREE)
    for target in plan.folders:
        if target != "/":
            tree.point(target, plan.owner)
    for target in plan.tmpfs:
        _scratch(tree, target, plan.tmp_bytes, "755", plan.owner)


def build(plan: Plan) -> list[str]:
    """Mounts everything under `NEW_ROOT`; returns the folders and files made in the writable layer for it."""
    sys_.mount(None, "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
    lower = ":".join(plan.lowers)
    options = f"lowerdir={lower},upperdir={plan.upper}/u,workdir={plan.upper}/w,userxattr"
    sys_.mount("overlay", NEW_ROOT, "overlay", _PLAIN, options)
    tree = _Tree(plan.root)
    if plan.system is not None:
        for name in SYSTEM:
            _system_folder(plan, tree, name)
    if plan.name_servers:
        sys_.mount("/resolv.conf", tree.point("/etc/resolv.conf", folder=False), None, sys_.MS_BIND)
        sys_.restrict_tree(f"{NEW_ROOT}/etc/resolv.conf", _READ_ONLY_TREE)
    _devices(tree, "/host/dev")
    shared = plan.tmp_bytes // 2 if plan.tmp_bytes else None
    _scratch(tree, "/dev/shm", shared, "1777", plan.root)
    _scratch(tree, "/tmp", plan.tmp_bytes, "1777", plan.root)
    sys_.mount("proc", tree.point("/proc"), "proc", _PLAIN | sys_.MS_NOEXEC)
    mount_views.hide_in_proc(f"{NEW_ROOT}/proc")
    _mount_requested(plan, tree)
    for path in plan.masks:
        _mask(tree, path, "/blank")
    os.close(tree.root)
    return tree.made


def enter() -> None:
    """Makes `NEW_ROOT` the root and detaches everything else; then makes writable parts of /proc read-only."""
    os.chdir(NEW_ROOT)
    sys_.pivot_root(".", ".")
    sys_.unmount(".")
    os.chdir("/")
    for path in PROC_READ_ONLY:
        if os.path.exists(path):
            sys_.mount(path, path, None, sys_.MS_BIND | sys_.MS_REC)
            sys_.restrict_tree(path, _READ_ONLY_TREE | 8)


def seal_processes() -> None:
    """Makes /proc read-only, so that processes of one user cannot write each other's memory. This is a second mount
    over the first, of which init has a file open for writing."""
    sys_.mount("/proc", "/proc", None, sys_.MS_BIND | sys_.MS_REC)
    sys_.restrict_tree("/proc", 1)
