"""Control groups, if the launcher may write them: the kernel limits memory and CPU of a sandbox as one sum.

Version 1 hierarchies (as root) or a delegated version 2 group. Groups carry the launcher's process id and start time
in their name, so that the next launcher removes groups of a killed one.
"""

from __future__ import annotations

import os
from pathlib import Path

PREFIX = "assay-"


def _start_time(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def write_text(path: str, value: str) -> None:
    """Writes a text to an existing file of the kernel's in one call."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


class Group:
    """One sandbox's groups, one folder a hierarchy."""

    def __init__(self, folders: dict[str, str], version: int) -> None:
        self._folders = folders
        self._version = version

    def add(self, pid: int) -> None:
        """Moves a process into the group."""
        for folder in sorted(set(self._folders.values())):
            write_text(f"{folder}/cgroup.procs", str(pid))

    def remove(self) -> bool:
        """Removes the groups; returns False while they contain a process."""
        for folder in set(self._folders.values()):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True

    @property
    def oom_file(self) -> str | None:
        """Returns the file whose `oom_kill` line counts processes killed for memory."""
        folder = self._folders.get("memory")
        if folder is None:
            return None
        return f"{folder}/{'memory.oom_control' if self._version == 1 else 'memory.events'}"

    def count_ooms(self) -> int:
        """Returns the number of its processes that the kernel has killed for memory."""
        try:
            text = Path(self.oom_file or "").read_text(encoding="utf-8")
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


class Control:
    """Available controllers, determined once at the launcher's start."""

    def __init__(self, mounts: str, *, delegated: bool) -> None:
        """Finds the hierarchies below `mounts`; `delegated`: for an ordinary user, who may have one of version 2."""
        self.version = 0
        self._tops: dict[str, str] = {}
        self._count = 0
        own = self._own_paths()
        if os.path.exists(f"{mounts}/cgroup.controllers"):
            self._find_v2(mounts, own.get("", "/"), delegated=delegated)
        else:
            self._find_v1(mounts, own)
        pid = os.getpid()
        self._name = f"{PREFIX}{pid}-{_start_time(pid)}"
        for top in set(self._tops.values()):
            self._remove_stale(top)
            for sibling in os.listdir(os.path.dirname(top)):  # a killed launcher may have used another group
                if os.path.isdir(f"{os.path.dirname(top)}/{sibling}"):
                    self._remove_stale(f"{os.path.dirname(top)}/{sibling}")

    @staticmethod
    def _own_paths() -> dict[str, str]:
        paths = {}
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                paths[controller] = path
        return paths

    def _find_v1(self, mounts: str, own: dict[str, str]) -> None:
        for controller in ("memory", "cpu"):
            folder = f"{mounts}/{controller}{own.get(controller, '/')}".rstrip("/")
            if os.access(f"{folder}/cgroup.procs", os.W_OK) and os.access(folder, os.W_OK):
                self._tops[controller] = folder
                self.version = 1

    def _find_v2(self, mounts: str, own: str, *, delegated: bool) -> None:
        for folder in (f"{mounts}{own}".rstrip("/"), mounts):
            if not (os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)):
                continue
            if delegated:
                self._delegate(folder)
            enabled = Path(folder, "cgroup.subtree_control").read_text(encoding="utf-8").split()
            self._tops = {c: folder for c in ("memory", "cpu") if c in enabled}
            if self._tops:
                self.version = 2
                return

    @staticmethod
    def _delegate(folder: str) -> None:
        """Enables the controllers for children; a group of our own (only host and launcher) needs a leader group for
        that."""
        own = {str(os.getpid()), str(os.getppid())}
        try:
            inside = set(Path(folder, "cgroup.procs").read_text(encoding="utf-8").split())
            if inside and inside <= own:
                os.makedirs(f"{folder}/leader", exist_ok=True)
                for pid in inside:
                    write_text(f"{folder}/leader/cgroup.procs", pid)
            write_text(f"{folder}/cgroup.subtree_control", "+memory +cpu")
        except OSError:
            return  # no permission: the limits stay soft, and the record says so

    @staticmethod
    def _remove_stale(top: str) -> None:
        for name in os.listdir(top):
            parts = name.removeprefix(PREFIX).split("-")
            if (
                name.startswith(PREFIX)
                and len(parts) == 3
                and parts[0].isdigit()
                and _start_time(int(parts[0])) != parts[1]
            ):
                try:
                    os.rmdir(f"{top}/{name}")
                except OSError:
                    continue

    @property
    def controllers(self) -> list[str]:
        """Returns the controllers that can limit a sum: `memory`, `cpu`."""
        return sorted(self._tops)

    def make(self, memory_bytes: int | None, cpus: float | None) -> Group | None:
        """Creates a group with these limits; returns None if none is requested or available."""
        wanted = {"memory": memory_bytes, "cpu": cpus}
        self._count += 1
        folders = {}
        for controller, value in wanted.items():
            if value is not None and controller in self._tops:
                folders[controller] = f"{self._tops[controller]}/{self._name}-{self._count}"
        for folder in sorted(set(folders.values())):
            os.mkdir(folder)
        if "memory" in folders and memory_bytes is not None:
            self._limit_memory(folders["memory"], memory_bytes)
        if "cpu" in folders and cpus is not None:
            self._limit_cpu(folders["cpu"], cpus)
        return Group(folders, self.version) if folders else None

    def _limit_memory(self, folder: str, size: int) -> None:
        if self.version == 2:
            write_text(f"{folder}/memory.max", str(size))
            names = {"memory.swap.max": "0", "memory.oom.group": "0"}
        else:
            write_text(f"{folder}/memory.limit_in_bytes", str(size))
            names = {"memory.memsw.limit_in_bytes": str(size)}
        for name, value in names.items():
            if os.path.exists(f"{folder}/{name}"):
                write_text(f"{folder}/{name}", value)

    def _limit_cpu(self, folder: str, cpus: float) -> None:
        period = 100_000
        quota = max(1000, int(cpus * period))
        if self.version == 2:
            write_text(f"{folder}/cpu.max", f"{quota} {period}")
        else:
            write_text(f"{folder}/cpu.cfs_period_us", str(period))
            write_text(f"{folder}/cpu.cfs_quota_us", str(quota))
