"""What a turn costs in text worlds: raw, named and forked; and what putting it on record adds.

Raw: acts drawn before the clock starts from those that are possible, resets included. On record: an attempt of many
turns through the loop (meter, step, digest of the state, chain, database, fsync), less the same acts raw. The size of
the grid there is that of a world in which no act ends the episode.

    python -m benchmarks.worlds
    python -m benchmarks.worlds --quick
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay.agents.interface import Attempt
from assay.environments.worlds.opening import text_world, world_kind
from assay.records import ToolCall, canonical_bytes
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from benchmarks._measure import cpu_seconds
from benchmarks._report import Report, Target, options

HOW = "one core, one world at a time; medians over rounds; CPU microseconds"
COLUMNS = ("what", "count", "per_s", "cpu_us", "state_us", "fork_us", "snapshot_us", "record_us", "wall_us")
WORLDS = (
    "grid", "maze", "key-value", "tables", "subset-sum", "graph-path", "constraints", "sokoban", "adventure"
)  # fmt: skip
RECORDED = "grid, a turn on record"
ATTEMPTS = "grid, a whole attempt of the expert, judged and audited"
DIRECTIONS = ("left", "up", "right", "down")
ENDLESS = {"size": 40, "solvable": False, "turns": 100_000}


class Asked(NamedTuple):
    """How much to measure."""

    turns: int
    recorded: int
    attempts: int
    rounds: int


class Mover:
    """Walks in a circle; one step a move. It keeps the last attempt's cost, for this script alone."""

    name = "mover"
    needs_model = False

    def __init__(self, turns: int = 1000) -> None:
        self._turns = turns

    async def run(self, attempt: Attempt) -> None:
        calls = [_call(number) for number in range(4)]
        for number in range(self._turns):
            await attempt.act([calls[number % 4]])
        attempt.finish("walked")


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    given = options("worlds", "What a turn costs in text worlds.").parse_args(arguments)
    asked = Asked(2_000, 4_000, 20, 1) if given.quick else Asked(100_000, 20_000, 1_000, 5)
    rows = [_raw(kind, {}, asked) for kind in WORLDS]
    _run("family:grid,n=2", "expert", 1)  # imports
    rows.append(_recorded(asked))
    rows.append(_attempts(asked))
    targets = [
        Target("a raw turn in the grid (100,000 a second)", "us", 10.0, rows[0]["cpu_us"]),
        Target("what recording adds to a turn in a world, wall", "us", 100.0, rows[-2]["wall_us"]),
        Target("the same, CPU", "us", 100.0, rows[-2]["record_us"]),
    ]
    report = Report("worlds", HOW, rows, targets, {})
    report.finish(COLUMNS, given.into)
    return report


def _raw(kind: str, config: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """Random possible acts."""
    world: Any = text_world(world_kind(kind), config, 1)
    draw = random.Random(1)
    known = world.choices()
    acts = [draw.choice(known) for _ in range(asked.turns)]

    def play() -> None:
        for act in acts:
            if world.act(*act)[2:4] != (False, False):
                world.reset()

    turn = _median_us(play, asked.rounds, asked.turns)
    few = max(1, asked.turns // 20)
    state, fork, snapshot = (
        _median_us(partial(_repeat, asking, few), asked.rounds, few)
        for asking in (world.state, world.fork, world.snapshot)
    )
    return {
        "what": kind,
        "count": asked.turns,
        "per_s": 1e6 / turn,
        "cpu_us": turn,
        "state_us": state,
        "fork_us": fork,
        "snapshot_us": snapshot,
    }


def _recorded(asked: Asked) -> dict[str, Any]:
    """What a turn on record takes beyond the act itself: a long attempt less a short one, less the acts raw."""
    task = "family:grid,n=1," + ",".join(f"{name}={str(value).lower()}" for name, value in ENDLESS.items())
    short, long = asked.recorded // 10, asked.recorded
    costs = []
    for _ in range(asked.rounds):
        less, more = (_run(task, f"{__file__}:Mover", 1, turns=turns) for turns in (short, long))
        costs.append([(b - a) / (long - short) * 1e6 for a, b in zip(less, more, strict=True)])
    wall, cpu = (statistics.median(values) for values in zip(*costs, strict=True))
    raw = _raw_circle(asked)
    found = {"what": RECORDED, "count": long, "per_s": 1e6 / wall, "cpu_us": cpu}
    return {**found, "record_us": cpu - raw, "wall_us": wall - raw}


def _attempts(asked: Asked) -> dict[str, Any]:
    """A whole short attempt: opening, judging, auditing and closing included."""
    wall, cpu = (
        statistics.median(values) / asked.attempts * 1e6
        for values in zip(
            *(_run(f"family:grid,n={asked.attempts},seed=1", "expert", 16) for _ in range(asked.rounds)), strict=True
        )
    )
    return {"what": ATTEMPTS, "count": asked.attempts, "per_s": 1e6 / wall, "cpu_us": cpu}


def _run(task: str, agent: str, at_once: int, **agent_options: Any) -> tuple[float, float]:
    """Seconds on the wall and of CPU."""
    with tempfile.TemporaryDirectory(prefix="worlds-") as folder:
        settings = Settings(Path(folder) / "cache", Path(folder) / "store")
        config = RunConfig(tasks=(task,), agent=agent, agent_options=agent_options, concurrency=at_once)
        wall, cpu = time.perf_counter(), cpu_seconds()
        asyncio.run(start_run(config, settings, Tally()))
        return time.perf_counter() - wall, cpu_seconds() - cpu


def _raw_circle(asked: Asked) -> float:
    world = text_world(world_kind("grid"), ENDLESS, 1)

    def play() -> None:
        world.reset()
        for number in range(asked.recorded):
            world.act("move", {"direction": DIRECTIONS[number % 4]})

    return _median_us(play, asked.rounds, asked.recorded)


def _repeat(act: Any, times: int) -> None:
    for _ in range(times):
        act()


def _median_us(act: Any, rounds: int, count: int) -> float:
    found = []
    for _ in range(rounds):
        before = cpu_seconds()
        act()
        found.append((cpu_seconds() - before) / count * 1e6)
    return statistics.median(found)


def _call(number: int) -> ToolCall:
    arguments = {"direction": DIRECTIONS[number % 4]}
    return ToolCall(f"a{number}", "move", canonical_bytes(arguments).decode(), arguments)


if __name__ == "__main__":
    main()
