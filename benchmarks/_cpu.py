"""CPU of everything that a mechanism runs: this process, its launchers, its sandboxes, whoever their parent is.

A process's own clock misses sandboxes whose parent is a launcher, so the kernel's accounting group is read: the driver
moves into a mechanism's group before it acts, what it starts stays there, and the group's total is the answer. Not in
it: what the kernel does later on its own threads (the rest of a network namespace's teardown).

Needs root and a writable `cpuacct` (version 1) or `cpu.stat` (version 2) hierarchy; without, CPU is not measured.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["Groups"]

V1, V2 = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")


class Groups:
    """One accounting group a name. Use as a context manager: leaving removes them."""

    def __init__(self) -> None:
        self._top = _top()
        self._made: dict[str, Path] = {}

    @property
    def works(self) -> bool:
        """Whether CPU can be measured here."""
        return self._top is not None

    def enter(self, name: str) -> None:
        """This process, and whatever it starts from now on, is counted under `name`."""
        if self._top is None:
            return
        if name not in self._made:
            folder = self._top / f"benchmark-{os.getpid()}-{len(self._made)}"
            folder.mkdir()
            self._made[name] = folder
        (self._made[name] / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_ms(self, name: str) -> float | None:
        """What has been used under a name so far; None where it cannot be known."""
        if name not in self._made:
            return None
        folder = self._made[name]
        if (folder / "cpuacct.usage").exists():
            return int((folder / "cpuacct.usage").read_text()) / 1e6
        return int((folder / "cpu.stat").read_text().split()[1]) / 1e3

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, *_: object) -> None:
        if self._top is not None:
            (self._top / "cgroup.procs").write_text(str(os.getpid()))
        for folder in self._made.values():
            with contextlib.suppress(OSError):  # something still dies in it; the next boot forgets it
                folder.rmdir()


def _top() -> Path | None:
    """The own group, if children can be made in it."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        folder = V1 / path.lstrip("/") if controllers == "cpuacct" else V2 / path.lstrip("/")
        counted = folder / ("cpuacct.usage" if controllers == "cpuacct" else "cpu.stat")
        if controllers in {"cpuacct", ""} and counted.exists() and os.access(folder, os.W_OK) and os.geteuid() == 0:
            return folder
    return None
