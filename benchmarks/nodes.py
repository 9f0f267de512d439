"""Cost of a node: CPU of a turn on a node beside one process, and of an attempt in the command that coordinates.

    python -m benchmarks.nodes [--quick] [--rounds N] [--place seaweedfs|folder]

The same ten-turn attempts in memory, eight at once: in one process (`assay run`), and on one node that the command
starts (`--nodes 1`), which commits them to the place. `model`: a scripted model that answers at once calls one tool a
turn, and everything is recorded. `no model`: an agent that only acts, so that a turn costs half, and an attempt's fixed
costs weigh twice as much. CPU is the difference between a long and a short run, so that starts and imports are not in
it; these differ by .1 s from one start to the next, so that the long run has 2,480 attempts. Both ways go in turns, and
the numbers are medians of the rounds. The command's CPU is all of it: leases, polls, progress, and the copy of all
chains into the store, which are recomputed.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._cluster_runs import Command, Site
from benchmarks._report import Report, Target, options
from benchmarks.peers.episode import INSTRUCTION, SAID, SYSTEM, TURNS
from benchmarks.place import WEED, seaweed_server

HOW = "CPU of a turn from the difference between a long and a short run, medians of rounds in turns; 8 attempts at once"
COLUMNS = ("what", "place", "attempts", "rounds", "cpu_us_a_turn", "ratio", "worst_ratio", "command_cpu_ms")
TASKS, AT_ONCE = 8, 8
TASK_FILE = f"""
from assay.environments.interface import ToolSpec
from assay.records import Check, EnvironmentSpec, Observation, Task, ToolCall, digest_record

SCHEMA = {{"type": "object", "properties": {{"by": {{"type": "integer"}}}}, "required": ["by"]}}

class Counter:
    def __init__(self, parameters, seed):
        self.value = 0

    def specs(self):
        return (ToolSpec("add", "Adds to the counter.", SCHEMA),)

    async def call(self, name, arguments):
        self.value += arguments["by"]
        return Observation(str(self.value))

    async def digest(self):
        return digest_record(self.value)

    def facts(self):
        return {{"value": self.value}}

    async def close(self):
        return None

class CounterTasks:
    def tasks(self, n, seed):
        return tuple(
            Task(
                id=f"count-{{number}}",
                instruction={INSTRUCTION!r},
                environment=EnvironmentSpec(f"{{__file__}}:Counter", {{}}),
                checks=(Check("ten", "facts", {{"expected": {{"value": {TURNS}}}}}),),
                digest=digest_record(["count", number]),
            )
            for number in range(n)
        )

class Adder:
    name = "adder"
    needs_model = False

    async def run(self, attempt):
        for number in range({TURNS}):
            await attempt.act([ToolCall(f"c{{number}}", "add", '{{"by": 1}}', {{"by": 1}})])
        attempt.finish("done")
"""


class Cost(NamedTuple):
    """CPU of one run, in seconds."""

    trials_s: float
    """Of the process that runs the trials."""
    command_s: float


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    parser = options("nodes", __doc__ or "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--place", choices=("seaweedfs", "folder"), help="default: SeaweedFS where it is installed")
    given = parser.parse_args(words)
    rounds, sizes = (1, (1, 3)) if given.quick else (given.rounds, (10, 310))
    place = given.place or ("folder" if WEED is None else "seaweedfs")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="assay-nodes-") as text, _opened(Path(text), place) as site:
        loads = _loads(site.folder)
        for load, arguments in loads.items():
            print(f"{load} ...", file=sys.stderr, flush=True)
            rows += _measure(site, load, arguments, sizes, rounds)
    for row in rows:
        row["place"] = place
    Report("nodes", HOW, rows, _targets(rows), {}).finish(COLUMNS, given.into)


def _targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    on_node = {row["what"]: row for row in rows if "ratio" in row}
    targets = []
    for load in ("model", "no model"):
        row = on_node.get(f"{load}, on a node", {})
        targets += [
            Target(f"CPU of a turn on a node to one of one process, {load}", "x", 1.25, row.get("ratio")),
            Target(f"CPU of an attempt in the command, {load}", "ms", 0.5, row.get("command_cpu_ms")),
        ]
    return targets


@contextlib.contextmanager
def _opened(folder: Path, place: str) -> Iterator[Site]:
    if place == "folder":
        (folder / "objects").mkdir()
        yield Site(folder, f"file://{folder}/objects")
        return
    with seaweed_server(folder / "weed") as server:
        yield Site(folder, server.url)


def _loads(folder: Path) -> dict[str, tuple[str, ...]]:
    """Writes the files of the loads; returns the arguments of each."""
    (folder / "counter.py").write_text(TASK_FILE, encoding="utf-8")
    add = {"name": "add", "arguments": {"by": 1}}
    finish = {"name": "finish", "arguments": {"message": "the counter stands at ten"}}
    replies = [{"content": SAID, "tool_calls": [add, finish] if n == TURNS - 1 else [add]} for n in range(TURNS)]
    (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    tasks = f"family:{folder}/counter.py:CounterTasks,n={TASKS}"
    model = ("--agent", "loop", "--agent-option", f"system={SYSTEM}", "--model", "scripted:replies.json")
    return {"model": (tasks, *model), "no model": (tasks, "--agent", "counter.py:Adder")}


def _measure(
    site: Site, load: str, arguments: Sequence[str], sizes: tuple[int, int], rounds: int
) -> list[dict[str, Any]]:
    attempts = TASKS * (sizes[1] - sizes[0])
    embedded: list[float] = []
    on_node: list[float] = []
    command: list[float] = []
    for number in range(rounds):
        name = f"{load.replace(' ', '-')}-{number}"
        short, long = (_run(site, f"{name}-{size}", arguments, size, nodes=False) for size in sizes)
        embedded.append((long.trials_s - short.trials_s) / attempts / TURNS * 1e6)
        short, long = (_run(site, f"{name}-node-{size}", arguments, size, nodes=True) for size in sizes)
        on_node.append((long.trials_s - short.trials_s) / attempts / TURNS * 1e6)
        command.append((long.command_s - short.command_s) / attempts * 1e3)
        print(f"{embedded[-1]:.0f} us, {on_node[-1]:.0f} us, {command[-1]:.2f} ms", file=sys.stderr, flush=True)
    ratios = [there / here for here, there in zip(embedded, on_node, strict=True)]
    common = {"attempts": attempts, "rounds": rounds}
    return [
        {"what": f"{load}, one process", **common, "cpu_us_a_turn": round(statistics.median(embedded))},
        {
            "what": f"{load}, on a node",
            **common,
            "cpu_us_a_turn": round(statistics.median(on_node)),
            "ratio": round(statistics.median(ratios), 2),
            "worst_ratio": round(max(ratios), 2),
            "command_cpu_ms": round(statistics.median(command), 2),
        },
    ]


def _run(site: Site, name: str, arguments: Sequence[str], attempts: int, *, nodes: bool) -> Cost:
    words = ("run", *arguments, "--concurrency", str(AT_ONCE), "--attempts", str(attempts), "--run", name)
    command = Command(site, *words, *(("--nodes", "1", "--place", site.url) if nodes else ()))
    children: dict[int, float] = {}
    while not _has_ended(command.process.pid):
        for pid in _children(command.process.pid):
            with contextlib.suppress(OSError):
                children[pid] = _cpu_s(pid)
        time.sleep(0.02)
    whole, of_nodes = command.wait(), sum(children.values())  # the whole includes processes that it waited for
    return Cost(of_nodes, whole - of_nodes) if nodes else Cost(whole, whole)


def _has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
