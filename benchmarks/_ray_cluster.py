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
from typing import Any, Self

__all__ = ["RayCluster"]

OBJECT_STORE_BYTES = 80 << 20
START_TRIES = 6


class RayCluster:
    """A head without CPUs, and nodes of one CPU. Use as a context manager."""

    def __init__(self, nodes: int = 3) -> None:
        self._count = nodes
        self._cluster: Any = None
        self.nodes: list[Any] = []
        self._raylets: dict[int, int] = {}
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
        self._raylets[number] = int(raylet.process.pid)
        return node

    def head_pids(self) -> list[int]:
        """Returns the processes of the head."""
        kinds = self._cluster.head_node.all_processes.values()
        return [int(info.process.pid) for infos in kinds for info in infos]

    def has_raylet(self, number: int) -> bool:
        """Tells whether the raylet of a node lives."""
        (info,) = self.nodes[number].all_processes.get("raylet", [None])
        return info is not None and info.process.poll() is None

    def kill_raylet(self, number: int) -> list[int]:
        """Kills the raylet of a node alone; returns the processes that it leaves behind."""
        raylet, *others = self.pids(number)  # the raylet is the first
        os.kill(raylet, signal.SIGKILL)
        return others

    def pids(self, number: int) -> list[int]:
        """Returns the processes of a node: its raylet, and what that started, also if it has another parent now."""
        raylet = self._raylets[number]
        mark = f"RAY_RAYLET_PID={raylet}".encode()  # Ray's agents overwrite it with their titles, and stay children
        marked, parents = set[int](), dict[int, int]()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit():
                    pid = int(folder.name)
                    words = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                    parents[pid] = int(words[1])
                    if mark in (folder / "environ").read_bytes().split(b"\0"):
                        marked.add(pid)
        found = [raylet]
        for pid in parents:
            ancestor = pid
            while ancestor in parents and ancestor not in marked and ancestor != raylet:
                ancestor = parents[ancestor]
            if pid != raylet and (ancestor in marked or ancestor == raylet):
                found.append(pid)
        return found

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
        for pid in self.pids(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)

    def __exit__(self, *_: object) -> None:
        for number in range(len(self.nodes)):
            self.send(number, signal.SIGCONT)
        left = {pid for number in range(len(self.nodes)) for pid in self.pids(number)}
        self._cluster.shutdown()
        time.sleep(0.5)
        for pid in left | _processes_with(self._folder):  # also of raylets that did not start in time
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


def _processes_with(text: str) -> set[int]:
    """Returns the processes whose command line has this text, but for this one."""
    found = set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and text.encode() in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found - {os.getpid()}
