"""What a sandbox costs: open, exec, close, snapshot and fork, at 1, 8 and 32 at once, beside bare tools.

    python -m benchmarks.sandbox [--quick]

All mechanisms run interleaved in one process, round by round; a number is the median over rounds. CPU is that of
everything a mechanism runs, read from the kernel's accounting (see `_cpu`). Times on the wall are of single calls;
`whole` is open, first exec and close of one box. A snapshot's time includes digesting every file of the state.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from assay.environments.interface import WorkspaceSpec
from benchmarks._cpu import Groups
from benchmarks._mechanisms import Mechanism, Namespaces, mechanisms
from benchmarks._report import Report, Target, options

HOW = "medians; CPU of the host, launcher and boxes together; p50 of single calls on the wall"
COLUMNS = (
    *("what", "at_once", "boxes", "open_cpu_ms", "exec_cpu_ms", "close_cpu_ms", "open_close_cpu_ms", "snapshot_cpu_ms"),
    *("whole_p50_ms", "open_p50_ms", "first_exec_p50_ms", "exec_p50_ms", "close_p50_ms", "snapshot_p50_ms"),
)
EXECS = 5
STATES = {"1 MB in 100 files": (100, 10_486), "50 MB in 500 files": (500, 104_858)}
MAKE_FILES = "for n in $(seq {count}); do head -c {size} /dev/urandom > f$n; done"
COPY = "cp -a"
FORKS = 5
"""Rounds of forks of one sealed state."""
LIMIT_FORK = 1.25
GROWN = "snapshot after one new file among {count:,}, {name}"
GROWN_COUNTS = (500, 50_000)
MAKE_MANY = "for n in $(seq {count}); do echo $n > f$n; done"
LIMIT_GROWN_CPU_MS = 8.0


class Asked(NamedTuple):
    """How much to measure; the keys of `rounds` and `fork_rounds` are how many at once."""

    rounds: dict[int, int]
    states: dict[str, tuple[int, int]]
    fork_rounds: dict[int, int]
    grown: tuple[int, ...]
    """Files of the states that are sealed again after one new file."""


class Opening(NamedTuple):
    """How boxes are opened, where not as the mechanism does by itself."""

    what: str
    how: Callable[[], Awaitable[Any]]


class Phase(NamedTuple):
    """One kind of call, made once in every box: the CPU each took on average, and the walls of all."""

    cpu_ms: float | None
    walls_ms: list[float]


class Bench:
    """The measuring, over one set of accounting groups."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.found: dict[tuple[str, int], dict[str, list[Phase]]] = {}

    async def phase(
        self, name: str, call: Callable[[Any], Awaitable[Any]], boxes: list[Any]
    ) -> tuple[Phase, list[Any]]:
        """Makes the call for all boxes at once."""

        async def one(box: Any) -> tuple[float, Any]:
            began = time.perf_counter()
            result = await call(box)
            return (time.perf_counter() - began) * 1000, result

        before = self.groups.cpu_ms(name)
        made = await asyncio.gather(*(one(box) for box in boxes))
        after = self.groups.cpu_ms(name)
        used = None if before is None or after is None else (after - before) / len(boxes)
        return Phase(used, [wall for wall, _ in made]), [result for _, result in made]

    def keep(self, what: str, at_once: int, phases: dict[str, list[Phase]]) -> None:
        """Files the phases of one round."""
        kept = self.found.setdefault((what, at_once), {})
        for key, more in phases.items():
            kept.setdefault(key, []).extend(more)
        if {"open", "first_exec", "close"} <= phases.keys():
            steps = zip(*(phases[key][0].walls_ms for key in ("open", "first_exec", "close")), strict=True)
            kept.setdefault("whole", []).append(Phase(None, [sum(walls) for walls in steps]))

    async def cycle(self, mechanism: Mechanism, at_once: int, opening: Opening | None = None) -> None:
        """One life of `at_once` boxes; `opening` says how they are opened and what that is called."""
        name = mechanism.name
        self.groups.enter(name)
        what, how = opening or Opening(name, mechanism.open)
        opened, boxes = await self.phase(name, lambda _: how(), [None] * at_once)
        first, _ = await self.phase(name, mechanism.exec, boxes)
        execs = [] if opening else [(await self.phase(name, mechanism.exec, boxes))[0] for _ in range(EXECS)]
        closed, _ = await self.phase(name, mechanism.close, boxes)
        found = {"open": [opened], "first_exec": [first], "close": [closed]}
        self.keep(what, at_once, {**found, "exec": execs} if execs else found)

    async def forks(self, ours: Namespaces, label: str, size: tuple[int, int], at_once: int) -> None:
        """Seals `at_once` states of that size, then opens as many boxes on one of them."""
        what = f"fork of {label}, {ours.name}"
        self.groups.enter(ours.name)
        boxes = [await ours.backend.open(WorkspaceSpec()) for _ in range(at_once)]
        command = MAKE_FILES.format(count=size[0], size=size[1])
        for box in boxes:
            made = await box.exec(command, timeout_s=120)
            if made.exit_code != 0:
                raise RuntimeError(f"the files could not be made: {made.stderr}")
        sealed, states = await self.phase(ours.name, lambda box: box.snapshot(), boxes)
        self.keep(what, at_once, {"snapshot": [sealed]})
        for box in boxes:
            await box.close()
        for _ in range(FORKS):
            await self.cycle(ours, at_once, Opening(what, lambda: ours.backend.open(WorkspaceSpec(), state=states[0])))
        for state in states:
            await ours.backend.release(state)

    async def snapshots(self, ours: Namespaces, count: int) -> None:
        """Seals a state of `count` files, then again after each of some new files."""
        self.groups.enter(ours.name)
        opened, boxes = await self.phase(ours.name, lambda _: ours.backend.open(WorkspaceSpec()), [None])
        sealed = []
        for command in (MAKE_MANY.format(count=count), *(f"echo {number} > new{number}" for number in range(FORKS))):
            made = await boxes[0].exec(command, timeout_s=120)
            if made.exit_code != 0:
                raise RuntimeError(f"the files could not be made: {made.stderr}")
            sealed.append((await self.phase(ours.name, lambda box: box.snapshot(), boxes))[0])
        self.keep(GROWN.format(count=count, name=ours.name), 1, {"open": [opened], "snapshot": sealed[1:]})
        await boxes[0].close()

    async def copies(self, label: str, size: tuple[int, int], at_once: int) -> None:
        """What a fork would cost by copying the files."""
        with tempfile.TemporaryDirectory(prefix="copies-") as folder:
            source = Path(folder, "source")
            source.mkdir()
            for number in range(size[0]):
                (source / f"f{number}").write_bytes(os.urandom(size[1]))
            self.groups.enter(COPY)

            async def copy(number: int) -> None:
                ran = await asyncio.create_subprocess_exec("cp", "-a", str(source), f"{folder}/{number}")
                if await ran.wait() != 0:
                    raise RuntimeError("cp failed")

            copied, _ = await self.phase(COPY, copy, list(range(at_once)))
            self.keep(f"copy of {label}, {COPY}", at_once, {"open": [copied]})

    def rows(self) -> list[dict[str, Any]]:
        """A row for each mechanism and number at once."""
        return [{"what": what, "at_once": at_once, **_numbers(kept)} for (what, at_once), kept in self.found.items()]


def _numbers(kept: dict[str, list[Phase]]) -> dict[str, Any]:
    row: dict[str, Any] = {"boxes": sum(len(p.walls_ms) for p in kept["open"])}
    for key, phases in kept.items():
        row[f"{key}_p50_ms"] = statistics.median(w for p in phases for w in p.walls_ms)
        cpu = [p.cpu_ms for p in phases if p.cpu_ms is not None]
        row[f"{key}_cpu_ms"] = statistics.median(cpu) if cpu else None
    if row.get("open_cpu_ms") is not None and "close_cpu_ms" in row:
        row["open_close_cpu_ms"] = row["open_cpu_ms"] + row["close_cpu_ms"]
    return row


async def measure(asked: Asked) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All of it."""
    not_measured: dict[str, str] = {}
    with Groups() as groups:
        if not groups.works:
            not_measured["CPU"] = "needs root and a writable cpuacct or version 2 control group"
        bench, ready = Bench(groups), []
        for mechanism in mechanisms():
            groups.enter(mechanism.name)
            why = await mechanism.start()
            if why is not None:
                not_measured[mechanism.name] = why
                continue
            ready.append(mechanism)
        try:
            await _all(bench, ready, asked)
        finally:
            for mechanism in ready:
                groups.enter(mechanism.name)
                await mechanism.stop()
    return bench.rows(), not_measured


async def _all(bench: Bench, ready: list[Mechanism], asked: Asked) -> None:
    for mechanism in ready:  # caches warm, nothing kept
        await bench.cycle(mechanism, 1)
    bench.found.clear()
    for at_once, rounds in asked.rounds.items():
        for _ in range(rounds):
            for mechanism in ready:
                await bench.cycle(mechanism, at_once)
    for label, size in asked.states.items():
        for at_once, rounds in asked.fork_rounds.items():
            for _ in range(rounds):
                await bench.copies(label, size, at_once)
                for mechanism in ready:
                    if isinstance(mechanism, Namespaces):
                        await bench.forks(mechanism, label, size, at_once)
    for count in asked.grown:
        for mechanism in ready:
            if isinstance(mechanism, Namespaces):
                await bench.snapshots(mechanism, count)


def targets(rows: list[dict[str, Any]]) -> list[Target]:
    """What was promised, for one box at a time."""
    single = {row["what"]: row for row in rows if row["at_once"] == 1}
    found = []
    for who, at_most in (("ordinary user", 10.0), ("as root, cgroups", 14.0)):
        row = single.get(f"assay namespaces, {who}", {})
        found.append(Target(f"open and close, {who}", "ms CPU", at_most, row.get("open_close_cpu_ms")))
        found.append(Target(f"exec, {who}", "ms CPU", 1.5, row.get("exec_cpu_ms")))
        fork = single.get(f"fork of 50 MB in 500 files, assay namespaces, {who}", {})
        times = None
        if row.get("open_cpu_ms") and fork.get("open_cpu_ms"):
            times = fork["open_cpu_ms"] / row["open_cpu_ms"]
        found.append(Target(f"forking 50 MB beside opening, {who}", "times the CPU", LIMIT_FORK, times))
        what = GROWN.format(count=GROWN_COUNTS[-1], name=f"assay namespaces, {who}")
        grown = single.get(what, {}).get("snapshot_cpu_ms")
        found.append(Target(what, "ms CPU", LIMIT_GROWN_CPU_MS, grown))
    return found


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    given = options("sandbox", "What a sandbox costs, beside bare tools.").parse_args(arguments)
    if given.quick:
        asked = Asked({1: 2, 4: 1}, {"1 MB in 100 files": STATES["1 MB in 100 files"]}, {1: 1}, GROWN_COUNTS[:1])
    else:
        asked = Asked({1: 40, 8: 10, 32: 4}, STATES, {1: 5, 8: 2, 32: 1}, GROWN_COUNTS)
    rows, not_measured = asyncio.run(measure(asked))
    report = Report("sandbox", HOW, rows, targets(rows), not_measured)
    report.finish(COLUMNS, given.into)
    return report


if __name__ == "__main__":
    main()
