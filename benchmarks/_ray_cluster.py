"""A cluster of Ray on this machine, whose nodes can be killed and stopped: a raylet each, with all that it started.
Nodes have no log monitor, as after `ray start --include-log-monitor false`.

One host: nodes share its cores, disk and clock, and no network is between them. SIGSTOP stands for a machine that
hangs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

__all__ = ["Process", "RayCluster"]

OBJECT_STORE_BYTES = 80 << 20
START_TRIES = 6


class Process(NamedTuple):
    """A process that is known by its start, too: its number is another's soon after its end."""

    pid: int
    started: int
    """In clock ticks since the machine's start."""

    @classmethod
    def now(cls, pid: int) -> Self:
        """Returns the process that has this number now.

        Raises:
            OSError: None has it.
        """
        return cls(pid, int(_fields(pid)[19]))

    def lives(self) -> bool:
        """Tells whether it has not ended."""
        with contextlib.suppress(OSError):
            return self.now(self.pid) == self
        return False

    def send(self, what: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            if self.lives():
                os.kill(self.pid, what)


class RayCluster:
    """A head without CPUs, and nodes of one CPU. Use as a context manager."""

    def __init__(self, nodes: int = 3) -> None:
        self._count = nodes
        self._cluster: Any = None
        self.nodes: list[Any] = []
        self._raylets: dict[int, Process] = {}
        """The process of each node's raylet."""
        self.address = ""
        """Address for `--nodes`."""

    def __enter__(self) -> Self:
        from ray.cluster_utils import Cluster

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default, also of the nodes that actors start
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # a short path: it holds sockets
        # `Cluster` writes its address into Ray's usual folder, which is not there where Ray was never started.
        Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray").mkdir(exist_ok=True)
        head = {"num_cpus": 0, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
        self._cluster = Cluster(
            initialize_head=True, head_node_args={**head, "temp_dir": self._folder}, shutdown_at_exit=False
        )
        self.address = f"ray:{self._cluster.address}"
        for _ in range(self._count):
            self.add_node()
        return self

    def add_node(self) -> None:
        """Adds a node."""
        self.nodes.append(self._new_node(len(self.nodes)))

    def replace(self, number: int) -> None:
        """Starts a node in the place of one that was killed."""
        with contextlib.suppress(Exception):  # what is left of it: a raylet that is gone cannot be asked
            self._cluster.remove_node(self.nodes[number], allow_graceful=False)
        self.nodes[number] = self._new_node(number)

    def _new_node(self, number: int) -> Any:
        for left in range(START_TRIES - 1, -1, -1):
            try:
                node = self._cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)
                break
            except Exception:  # Ray gives a raylet 30 seconds, and raises no narrower error
                if not left:
                    raise
        (raylet,) = node.all_processes["raylet"]
        self._raylets[number] = Process.now(int(raylet.process.pid))
        return node

    def head_pids(self) -> list[int]:
        """Returns the processes of the head."""
        kinds = self._cluster.head_node.all_processes.values()
        return [int(info.process.pid) for infos in kinds for info in infos]

    def has_raylet(self, number: int) -> bool:
        """Tells whether the raylet of a node lives."""
        (info,) = self.nodes[number].all_processes.get("raylet", [None])
        return info is not None and info.process.poll() is None

    def kill_raylet(self, number: int) -> list[Process]:
        """Kills the raylet of a node alone; returns the processes that it leaves behind."""
        raylet, left = self._raylets[number], self.processes(number)
        raylet.send(signal.SIGKILL)
        return [one for one in left if one != raylet]

    def processes(self, number: int) -> list[Process]:
        """Returns the processes of a node: its raylet, and what that started, also if it has another parent now."""
        raylet = self._raylets[number]
        mark = f"RAY_RAYLET_PID={raylet.pid}".encode()  # agents overwrite it with their titles, and stay children
        found, parents = {raylet} if raylet.lives() else set(), dict[Process, int]()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit():
                    process = Process.now(int(folder.name))
                    parents[process] = int(_fields(process.pid)[1])
                    # what has the number of an earlier raylet in its variables started before this one
                    if process.started >= raylet.started and mark in (folder / "environ").read_bytes().split(b"\0"):
                        found.add(process)
        by_pid = {process.pid: process for process in parents}
        for process in sorted(parents, key=lambda one: (one.started, one.pid)):  # a parent starts before its child
            if by_pid.get(parents[process]) in found:
                found.add(process)
        return sorted(found)

    def pids(self, number: int) -> list[int]:
        """Returns the numbers of the processes of a node."""
        return [process.pid for process in self.processes(number)]

    def node_pid(self, number: int) -> int | None:
        """Returns the process that runs trials on a node; None if it has none now."""
        for pid in self.pids(number):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"assay.rollout.cluster.local_nodes" in words:
                    return pid
        return None

    def send(self, number: int, what: signal.Signals) -> None:
        """Sends a signal to all processes of a node."""
        for process in self.processes(number):
            process.send(what)

    def __exit__(self, *_: object) -> None:
        for number in range(len(self.nodes)):
            self.send(number, signal.SIGCONT)
        left = {process for number in range(len(self.nodes)) for process in self.processes(number)}
        self._cluster.shutdown()
        time.sleep(0.5)
        for process in left | _processes_with(self._folder):  # also of raylets that did not start in time
            process.send(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


def _fields(pid: int) -> list[str]:
    """Returns the fields of a process's `stat` that come after its name (man 5 proc): its state is the first."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _processes_with(text: str) -> set[Process]:
    """Returns the processes whose command line has this text, but for this one."""
    found = set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and text.encode() in (folder / "cmdline").read_bytes():
                found.add(Process.now(int(folder.name)))
    return {process for process in found if process.pid != os.getpid()}
