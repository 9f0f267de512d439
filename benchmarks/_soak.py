"""A soak of runs on three raylets: something is killed or stopped each minute, and memory is looked at all the time.

Drawn by a seed: a raylet with all that it started gets SIGKILL; a raylet alone does, and what it started goes on; a
node is stopped for up to 50 seconds; the command gets SIGKILL, and the run is resumed; SeaweedFS gets SIGKILL, and is
started again. Afterwards each run has the finals of the run in one process, its chain is audited, and a copy is made
from the place alone.

Memory is the proportional set size of the processes: Ray's head (GCS), the command, and the node processes.
"""

from __future__ import annotations

import contextlib
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._cluster_runs import Command, Site
from benchmarks._finals import finals_of
from benchmarks._ray_cluster import Process, RayCluster

__all__ = ["FaultLog", "pss_mib", "soak"]

FAULT_S = 60.0
SAMPLE_S = 10.0
RUN_LIMIT_S = 3600.0
OLD_S = 120.0
"""A node process that lived for so long after it was first seen counts in the growth of nodes."""


class FaultLog(NamedTuple):
    """The act, and when it was done."""

    kind: str
    at_s: float
    run: str


class _Faults:
    """Draws one fault each minute, and undoes the earlier ones."""

    def __init__(self, cluster: RayCluster, server: Any, draw: random.Random, began: float) -> None:
        self._cluster, self._server, self._draw, self._began = cluster, server, draw, began
        self._next = began + FAULT_S
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.done: list[FaultLog] = []

    def step(self, command: Command) -> None:
        """Does what is due."""
        now = time.monotonic()
        due = [act for at, act in self._later if at <= now]
        self._later = [one for one in self._later if one[0] > now]
        for act in due:
            act()
        if now < self._next:
            return
        self._next += FAULT_S
        acts = {
            "node killed": self._kill_node,
            "raylet killed": self._kill_raylet,
            "node hung": self._stop_node,
            "command killed": command.process.kill,
        }
        if self._server is not None:
            acts["store killed"] = self._kill_store
        kind = self._draw.choice(sorted(acts))
        words = command.words
        run = words[words.index("--run") + 1] if "--run" in words else words[1]
        self.done.append(FaultLog(kind, round(now - self._began, 1), run))
        print(self.done[-1], file=sys.stderr, flush=True)
        acts[kind]()

    def _any_node(self) -> int:
        return self._draw.randrange(len(self._cluster.nodes))

    def _kill_node(self) -> None:
        victim = self._any_node()
        self._cluster.send(victim, signal.SIGKILL)
        self._cluster.replace(victim)

    def _kill_raylet(self) -> None:
        victim = self._any_node()
        left = self._cluster.kill_raylet(victim)
        self._cluster.replace(victim)
        self._later.append((time.monotonic() + FAULT_S, lambda: _kill(left)))

    def _stop_node(self) -> None:
        victim = self._any_node()
        self._cluster.send(victim, signal.SIGSTOP)
        self._later.append((time.monotonic() + self._draw.uniform(5, 50), lambda: self._wake(victim)))

    def _wake(self, victim: int) -> None:
        self._cluster.send(victim, signal.SIGCONT)
        self._later.append((time.monotonic() + 20, lambda: self._replace_dead(victim)))

    def _replace_dead(self, victim: int) -> None:
        if not self._cluster.has_raylet(victim):  # Ray had taken it for dead, and it left when it learnt that
            self._cluster.send(victim, signal.SIGKILL)
            self._cluster.replace(victim)

    def _kill_store(self) -> None:
        self._server.kill()
        time.sleep(5)
        self._server.start()


def _kill(processes: Sequence[Process]) -> None:
    for process in processes:
        process.send(signal.SIGKILL)


class _Memory:
    """Samples of memory over the soak."""

    def __init__(self, cluster: RayCluster, began: float) -> None:
        self._cluster, self._began, self._next = cluster, began, began
        self.samples: list[dict[str, float]] = []
        self._nodes: dict[int, list[tuple[float, float]]] = {}
        """Of each node process: seconds and MiB."""

    def step(self, command: Command) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + SAMPLE_S
        pids = [self._cluster.node_pid(number) for number in range(len(self._cluster.nodes))]
        nodes = {pid: pss_mib([pid]) for pid in pids if pid is not None}
        for pid, mib in nodes.items():
            if mib:
                self._nodes.setdefault(pid, []).append((now, mib))
        head = self._cluster.head_pids()
        gcs = [pid for pid in head if "gcs_server" in _program(pid)]
        sample = {
            "at_s": round(now - self._began, 1),
            "gcs": pss_mib(gcs),
            "head": pss_mib(head),
            "command": pss_mib([command.process.pid]),
            "node_most": max(nodes.values(), default=0.0),
        }
        self.samples.append({key: round(value, 1) for key, value in sample.items()})

    def growth(self, key: str) -> float | None:
        """Returns the median of the last quarter to that of the second; None for too few samples.

        The first quarter is left out: caches fill in it.
        """
        values = [sample[key] for sample in self.samples if sample[key] > 0]
        quarter = len(values) // 4
        if quarter < 3:
            return None
        return round(statistics.median(values[-quarter:]) / statistics.median(values[quarter : 2 * quarter]), 3)

    def nodes(self) -> list[dict[str, Any]]:
        """Returns age, first and last MiB of each node process that lived long enough."""
        found = []
        for seen in self._nodes.values():
            after = [one for one in seen if one[0] - seen[0][0] >= 30]
            age = seen[-1][0] - seen[0][0]
            if age >= OLD_S and len(after) > 1:
                first, last = round(after[0][1], 1), round(seen[-1][1], 1)
                found.append({"age_s": round(age), "first_mib": first, "last_mib": last})
        return found


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    return ""


def pss_mib(pids: Sequence[int]) -> float:
    """Returns the proportional set size of processes; 0 for one that is gone."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def soak(
    cluster: RayCluster,
    site: Site,
    server: Any,
    words: Sequence[str],
    compare: Callable[[str, dict[str, Any]], dict[str, Any]],
    *,
    seconds: float,
    seed: int,
    publish: Callable[[list[dict[str, Any]], dict[str, Any]], None],
) -> None:
    """Runs one run after the other until the time is over.

    Args:
        cluster: Has nodes.
        site: Where runs are done.
        server: SeaweedFS, if it is the place.
        words: Arguments of `assay run`.
        seconds: After which no run is begun.
        seed: Draws the faults.
        compare: Compares a run with the reference and checks its chain; returns facts about it.
        publish: Takes the rows and the facts after each run, so that an interrupted soak leaves what it has.
    """
    Command(site, "run", *_at_once(words, 8), "--run", "embedded").wait()
    reference = finals_of(site.store, "embedded")
    began = time.monotonic()
    faults, memory = _Faults(cluster, server, random.Random(seed), began), _Memory(cluster, began)
    rows: list[dict[str, Any]] = []
    while time.monotonic() - began < seconds:
        run = f"soak-{len(rows)}"
        run_began, before = time.monotonic(), len(faults.done)
        errors = _one_run(cluster, site, words, run, (faults.step, memory.step))
        wall_s = round(time.monotonic() - run_began, 1)
        facts = compare(run, reference)
        rows.append({"what": run, **facts, "kills": len(faults.done) - before, "wall_s": wall_s, "errors": errors})
        print(rows[-1], file=sys.stderr, flush=True)
        publish([_total(rows, faults, memory, time.monotonic() - began), *rows], _facts(faults, memory))


def _at_once(words: Sequence[str], count: int) -> list[str]:
    number = words.index("--concurrency") + 1
    return [*words[:number], str(count), *words[number + 1 :]]


def _one_run(
    cluster: RayCluster, site: Site, words: Sequence[str], run: str, steps: Sequence[Callable[[Command], None]]
) -> list[str]:
    """Runs a run to its end, and resumes it as often as the command is killed or ends early; returns the errors."""
    nodes = ("--nodes", cluster.address, "--place", site.url)
    command = Command(site, "run", *words, "--run", run, *nodes)
    errors: list[str] = []
    until = time.monotonic() + RUN_LIMIT_S
    while True:
        while not command.has_ended():
            if time.monotonic() > until:
                command.process.kill()
                raise AssertionError(f"{run} took more than {RUN_LIMIT_S:.0f} s; {errors}")
            for step in steps:
                step(command)
            time.sleep(0.5)
        code = command.end()
        if code == 0:
            return errors
        if code != -signal.SIGKILL:
            errors.append(command.lines[-1][1] if command.lines else f"exit code {code}")
            print(errors[-1], file=sys.stderr, flush=True)
        if not site.finals(run) and not (site.store / "runs" / run).exists():
            command = Command(site, "run", *words, "--run", run, *nodes)  # it ended before it had begun
        else:
            command = Command(site, "resume", run)


def _total(rows: Sequence[dict[str, Any]], faults: _Faults, memory: _Memory, wall_s: float) -> dict[str, Any]:
    nodes = memory.nodes()
    growth = [one["last_mib"] / one["first_mib"] for one in nodes]
    sums = {key: sum(row[key] for row in rows) for key in ("attempts", "differing", "superseded", "retried")}
    return {
        "what": "soak",
        "runs": len(rows),
        **sums,
        "kills": len(faults.done),
        "wall_s": round(wall_s),
        "errors": sum(len(row["errors"]) for row in rows),
        "gcs_growth": memory.growth("gcs"),
        "head_growth": memory.growth("head"),
        "command_growth": memory.growth("command"),
        "node_growth": round(statistics.median(growth), 3) if growth else None,
        "node_growth_most": round(max(growth), 3) if growth else None,
        "pss_mib": round(max(sample["node_most"] for sample in memory.samples)),
    }


def _facts(faults: _Faults, memory: _Memory) -> dict[str, Any]:
    kinds = sorted({one.kind for one in faults.done})
    return {
        "faults": {kind: sum(one.kind == kind for one in faults.done) for kind in kinds},
        "fault_log": [one._asdict() for one in faults.done],
        "memory_mib": memory.samples,
        "nodes": memory.nodes(),
    }
