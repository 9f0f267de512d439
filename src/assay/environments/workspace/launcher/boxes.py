"""Table of the launcher's sandboxes and layers, and their creation.

The launcher's own tree (its root after `take_root`): `/host` is the machine's root, `/s` the skeleton, `/l/N` layers
and mounts, `/t/N` writable layers, `/blank` the sources of masks, `/n` the mount point for building a sandbox's tree,
`/v` that of the folder of a single file, `/p/N` the roots in which templates start.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from . import counts, facts, init, mounts, privileges, seccomp
from . import syscalls as sys_
from .base import write_skeleton
from .cgroups import Control, Group, write_text
from .points import UNCHANGED, Owner
from .protocol import send
from .templates import FOLDER as TEMPLATES
from .templates import Templates

FIRST_ID, IDS = 100_000, 65_536
PLACES = 10_000_000
AGENT, ROOT = Owner(1000, 1000), Owner(0, 0)
SPACES = sys_.NEWUSER | sys_.NEWNS | sys_.NEWPID | sys_.NEWIPC | sys_.NEWUTS
"""Without the cgroup namespace: a process enters it in its own group, so that the group's name is hidden inside."""


class Box(NamedTuple):
    """A live sandbox."""

    pid: int
    group: Group | None


class BoxMaker(NamedTuple):
    """Facts that all sandboxes share and that their first processes need to know."""

    filter: bytes
    """System call filter."""
    separate: bool
    """True if a range of ids is mapped (the launcher is root)."""


def take_root(work: str = "/tmp") -> None:
    """Moves this process into a mount tree of its own, with the machine's root at /host."""
    sys_.mount(None, "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
    sys_.mount("tmpfs", work, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, "mode=755")
    os.chdir(work)
    for name in ("host", "proc", "s", "l", "t", "n", "k", "v", TEMPLATES[1:], "blank", "blank/folder"):
        os.mkdir(name)
    os.close(os.open("blank/file", os.O_CREAT | os.O_WRONLY, 0o444))
    sys_.pivot_root(".", "host")
    os.chdir("/")
    sys_.mount("/host/proc", "/proc", None, sys_.MS_BIND | sys_.MS_REC)
    sys_.mount("/blank", "/blank", None, sys_.MS_BIND)
    sys_.restrict_tree("/blank", 1 | 2 | 4)


class Boxes:
    """All sandboxes, layers and mounts of the launcher."""

    def __init__(self, scratch: str, limits: dict[str, int], *, separate: bool, generation: int = 0) -> None:
        self.separate = separate
        """True if a range of ids is mapped (the launcher is root)."""
        self._owners = counts.Owners() if separate else None
        shared = self._owners is None or not self._owners.available
        self.counted = limits if shared else {}
        """Counted limits of the host that sandboxes share, by name; empty if each has an owner of its own."""
        self.control = Control("/host/sys/fs/cgroup", delegated=not separate)
        self.alive: dict[int, Box] = {}
        self.fates: dict[int, int] = {}
        """Ended sandboxes to the number of their processes that the kernel killed for memory."""
        self._copies: dict[str, str] = {}
        self._count = generation * PLACES  # paths of a dead launcher are never reused
        self._map: int | None = None
        self._maker = BoxMaker(seccomp.program(), separate=separate)
        self._templates = Templates(separate=separate)
        write_skeleton("/s", "/host")
        self.base = FIRST_ID if separate else 0
        if separate:
            for folder, _, names in os.walk("/s"):
                for name in (".", *names):
                    os.chown(f"{folder}/{name}", FIRST_ID, FIRST_ID, follow_symlinks=False)
        for name in ("/s/workspace", "/s/home/agent"):
            self._give(name)
        inner = f"/host{scratch}/inner"  # searchable, inside a folder that other users of the host cannot enter
        os.mkdir(inner)
        os.chmod(inner, 0o711)
        sys_.mount(inner, "/k", None, sys_.MS_BIND)
        self.tmpfs = self._tmpfs_holds_marks()

    def _give(self, path: str, owner: Owner = AGENT) -> None:
        """Changes the owner to the sandbox's user."""
        if self.separate:
            os.chown(path, FIRST_ID + owner.user, FIRST_ID + owner.group, follow_symlinks=False)

    @staticmethod
    def _tmpfs_holds_marks() -> bool:
        try:
            os.setxattr("/s", "user.assay", b"1")
            os.removexattr("/s", "user.assay")
        except OSError:
            return False
        return True

    def _number(self) -> int:
        self._count += 1
        return self._count

    # Layers and mounts

    def layer(self, source: str, kind: str) -> str:
        """Prepares a host folder or file for sandboxes; `kind` is `layer` (owned by the agent) or `mount`."""
        place = f"/l/{self._number()}"
        real = "/host" + source
        os.mkdir(place)
        if not os.path.isdir(real):
            return self._bring_file(real, place)
        if kind == "layer" and self.separate:
            self._bring_layer(real, place)
        else:
            sys_.mount(real, place, None, sys_.MS_BIND | sys_.MS_REC)
        if kind == "mount":
            sys_.restrict_tree(place, 1 | 2 | 4)
        return place

    def forget(self, place: str) -> None:
        """Releases a layer or mount; sandboxes that use it keep it."""
        file, place = place, "/".join(place.split("/")[:3])
        if file == place or os.path.ismount(place):
            sys_.unmount(place)
        else:
            sys_.unmount(file)
            os.unlink(file)
        os.rmdir(place)
        copy = self._copies.pop(place, None)
        if copy is not None:
            shutil.rmtree(copy)

    def _bring_file(self, real: str, place: str) -> str:
        """Mounts a file with its folder, of which `mount_views` creates a view, or alone if the sandbox's user cannot
        search that folder."""
        folder, _, name = real.rpartition("/")
        file = f"{place}/{name}"
        if self.separate and not os.stat(folder).st_mode & stat.S_IXOTH:
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o644))
            sys_.mount(real, file, None, sys_.MS_BIND)
            sys_.restrict_tree(file, 1 | 2 | 4)
            return file
        sys_.mount(folder, place, None, sys_.MS_BIND)
        sys_.restrict_tree(place, 1 | 2 | 4)
        return file

    def _bring_layer(self, real: str, place: str) -> None:
        """Mounts a layer as root with the agent as its owner through an id-mapped mount; copies it if that fails."""
        if _all_owned_by_root(real):
            try:
                tree = sys_.clone_mount(real)
                sys_.map_mount(tree, self._agent_map())
                sys_.attach_mount(tree, place)
                os.close(tree)
            except OSError:
                pass
            else:
                return
        copy = f"/k/l{self._number()}"
        _copy_tree(real, copy, FIRST_ID + AGENT.user)
        self._copies[place] = copy
        sys_.mount(copy, place, None, sys_.MS_BIND)

    def _agent_map(self) -> int:
        """Returns a user namespace that maps the host's root to the agent, for id-mapped mounts."""
        if self._map is None:
            read, write = os.pipe()
            pid = sys_.clone(sys_.NEWUSER)
            if pid == 0:
                os.close(write)
                os.read(read, 1)
                os._exit(0)
            for name in ("uid_map", "gid_map"):
                write_text(f"/proc/{pid}/{name}", f"0 {FIRST_ID + AGENT.user} 1")
            self._map = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
            os.close(write)
            os.close(read)
            os.waitpid(pid, 0)
        return self._map

    # Writable layers

    def upper(self, size: int | None, inodes: int | None, owner: Owner = ROOT) -> str:
        """Creates a writable layer: a tmpfs of that size, or a folder on disk for None. `owner` will own `/`."""
        number = self._number()
        place = f"/t/{number}"
        if size is None:
            place = f"/k/u{number}"
            os.mkdir(place)
        else:
            os.mkdir(place)
            sys_.mount("tmpfs", place, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, f"size={size},nr_inodes={inodes}")
        for name in ("", "/u", "/w"):
            if name:
                os.mkdir(place + name)
            os.chmod(place + name, 0o755)
            self._give(place + name, owner)
        return place

    def drop_upper(self, place: str) -> None:
        """Releases a writable or sealed layer; its memory is freed when the last mount is gone."""
        if place.startswith("/t/"):
            sys_.unmount(place)
            os.rmdir(place)
        elif place.startswith("/k/"):
            shutil.rmtree(place)

    # Sandboxes

    def open(self, request: dict[str, Any], control: socket.socket) -> Box:
        """Clones a sandbox, which sends its own answer (`ready` or `error`) over `control`."""
        memory, cpus = request.get("memory"), request.get("cpus")
        if request["network"] == "host":
            self._copy_name_servers()
        group = self.control.make(memory, cpus) if memory is not None or cpus is not None else None
        flags = SPACES | (sys_.NEWNET if request["network"] == "none" else 0)
        read, write = os.pipe2(os.O_CLOEXEC)
        owner = self._owners.choose() if self._owners is not None else counts.SHARED
        pid = None
        if request.get("preload"):
            pid = self._templates.clone(request, flags, owner, control.fileno(), read)
        if pid is None:
            pid = counts.clone_owned(flags, owner)
        if pid == 0:
            os.close(write)
            become(self._maker, {**request, "preload": None}, control, read)
        os.close(read)
        try:
            if group is not None:
                group.add(pid)
            self._map_ids(pid, request["user"])
            os.write(write, b"g")
        except OSError:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.close(write)
        box = Box(pid, group)
        self.alive[pid] = box
        return box

    @staticmethod
    def _copy_name_servers() -> None:
        try:
            shutil.copyfile("/host/etc/resolv.conf", "/resolv.conf")
        except OSError:
            Path("/resolv.conf").write_text("", encoding="utf-8")

    def _map_ids(self, pid: int, user: str) -> None:
        inside = AGENT.user if user == "agent" else 0
        for name in ("uid_map", "gid_map"):
            write_text(f"/proc/{pid}/{name}", f"0 {FIRST_ID} {IDS}" if self.separate else f"{inside} 0 1")

    def reap(self) -> None:
        """Reaps ended sandboxes and removes their groups."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            box = self.alive.pop(pid, None)
            if box is not None and box.group is not None:
                self.fates[pid] = box.group.count_ooms()
                self._remove_group(box.group)
                while len(self.fates) > 1000:
                    del self.fates[next(iter(self.fates))]

    @staticmethod
    def _remove_group(group: Group) -> None:
        for _ in range(50):
            if group.remove():
                return
            select.select([], [], [], 0.002)

    def end(self) -> None:
        """Ends every sandbox and releases its resources outside its namespaces."""
        for pid in list(self.alive):
            os.kill(pid, signal.SIGKILL)
        for pid, box in list(self.alive.items()):
            os.waitpid(pid, 0)
            if box.group is not None:
                self._remove_group(box.group)


def _all_owned_by_root(top: str) -> bool:
    for folder, folders, names in os.walk(top):
        for name in (".", *folders, *names):
            status = os.lstat(f"{folder}/{name}")
            if status.st_uid or status.st_gid:
                return False
    return True


def _copy_tree(source: str, target: str, owner: int) -> None:
    """Copies a layer with its marks (whiteouts, opaque folders), owned by `owner`."""
    status = os.lstat(source)
    if stat.S_ISDIR(status.st_mode):
        os.mkdir(target)
        for name in os.listdir(source):
            _copy_tree(f"{source}/{name}", f"{target}/{name}", owner)
    elif stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(status.st_mode):
        shutil.copyfile(source, target)
    elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        os.mknod(target, stat.S_IFCHR | 0o000, 0)
    else:
        return
    os.chown(target, owner, owner, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(target, stat.S_IMODE(status.st_mode))
        for mark in os.listxattr(source):
            if mark.startswith("user."):
                os.setxattr(target, mark, os.getxattr(source, mark))


def become(maker: BoxMaker, request: dict[str, Any], control: socket.socket, gate: int) -> init.Command:
    """Runs in the child: waits for its id maps, builds its file system, drops privileges, serves. Returns only in a
    fork that is to run the program of the template from which the sandbox was cloned."""
    command = None
    try:
        if os.read(gate, 1) == b"g":
            command = _build_and_serve(maker, request, control)
    except (OSError, ValueError) as exc:
        with suppress(ConnectionError):  # the host may be gone
            send(control, {"error": str(exc)})
    finally:
        if command is None:
            os._exit(1)
    assert command is not None
    return command


def _build_and_serve(maker: BoxMaker, request: dict[str, Any], control: socket.socket) -> init.Command:
    user = AGENT if request["user"] == "agent" else ROOT
    if maker.separate:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    sys_.unshare(sys_.NEWCGROUP)
    made = mounts.build(_plan(request, user, separate=maker.separate))
    counts.write_limits(request["counts"], f"{mounts.NEW_ROOT}{counts.FOLDER}")
    mounts.enter()
    sys_.set_hostname(request["hostname"])
    if request["network"] == "none":
        privileges.loopback_up()
    oom = init.OomScore()
    if request["user"] == "verifier":
        mounts.seal_processes()
    privileges.close_all_but([fd for fd in (control.fileno(), oom.fileno()) if fd >= 0])
    privileges.set_limits(request["rlimits"])
    keep = privileges.VERIFIER_KEEPS if request["user"] == "verifier" else 0
    change_user = maker.separate and user != ROOT
    privileges.drop(user, maker.filter, keep=keep, change_user=change_user)
    send(control, {"ready": True, "made": made, "facts": facts.collect(control.fileno(), oom.fileno())})
    return init.Server(control, oom, request["preload"]).serve()


def _plan(request: dict[str, Any], user: Owner, *, separate: bool) -> mounts.Plan:
    whole = bool(request["whole_root"])
    lowers = (*request["lowers"], *(() if whole else ("/s",)))
    return mounts.Plan(
        lowers=lowers,
        upper=request["upper"],
        system=None if whole else "/host",
        skeleton="/s",
        image=tuple(request["image"]),
        mounts=tuple((str(source), str(target)) for source, target in request["mounts"]),
        masks=tuple(request["masks"]),
        tmpfs=tuple(request["tmpfs"]),
        folders=tuple(request["folders"]),
        tmp_bytes=request["tmp"],
        name_servers=request["network"] == "host" and not whole,
        owner=user if separate else UNCHANGED,
        root=ROOT if separate else UNCHANGED,
    )
