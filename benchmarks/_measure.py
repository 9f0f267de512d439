"""What every benchmark needs: CPU seconds, peak memory, medians, a table, and results with the machine's facts."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "Cost",
    "commit_here",
    "cost_of",
    "machine_facts",
    "markdown_table",
    "median_of",
    "own_process",
    "peak_mib",
    "reference_us",
    "write_results",
]

RESULTS = Path(__file__).parent / "results" / "local"
REFERENCE = "the reference loop, a turn"
QUIET_US = 5.95
"""CPU microseconds of a turn of the reference loop on the quiet machine for which bars in microseconds were set: there
0.22 ms are 37 turns."""


class Cost(NamedTuple):
    """Seconds on the wall and of CPU (children included)."""

    wall_s: float
    cpu_s: float


class Meter:
    """Collects the cost of what runs inside `cost_of`, any number of times."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    @property
    def cost(self) -> Cost:
        return Cost(self.wall_s, self.cpu_s)

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), cpu_seconds()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - wall
            self.cpu_s += cpu_seconds() - cpu


def cpu_seconds() -> float:
    """User and system time of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)  # os.times() counts in hundredths of a second


def cost_of(act: Callable[[], object]) -> Cost:
    """What one call costs."""
    meter = Meter()
    with meter.running():
        act()
    return meter.cost


def median_of(act: Callable[[], object], repeats: int = 5) -> Cost:
    """The medians over some calls."""
    costs = [cost_of(act) for _ in range(repeats)]
    return Cost(statistics.median(c.wall_s for c in costs), statistics.median(c.cpu_s for c in costs))


def peak_mib() -> float:
    """The largest resident memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage's begins at what the parent had when it forked
        lines = status.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak / (1 << 20) if sys.platform == "darwin" else peak / 1024)


def own_process(act: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Runs a function in a fresh process, so that memory and caches are its own: its result and its peak in MiB."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result: tuple[Any, float] = pool.apply(_with_peak, (act, arguments))
    return result


def _with_peak(act: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, float]:
    return act(*arguments), peak_mib()


def reference_us(attempts: int = 500) -> float:
    """Returns the CPU microseconds of a turn of the reference loop (`peers/bare.py`), in a process of its own.

    Its time over `QUIET_US` is how much slower this machine is at this moment than the one that bars are set for.
    """
    script = Path(__file__).parent / "peers" / "bare.py"
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        command = [sys.executable, str(script), str(attempts), "8", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["cpu_ms_per_turn"]) * 1_000


def commit_here() -> str:
    """Returns the commit of the work tree, with `-dirty` where files differ from it; "" without Git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(command, cwd=RESULTS.parent.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def machine_facts() -> dict[str, Any]:
    """What a reader needs to judge a number; no name of the machine or of its user."""
    try:
        model = next(
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.processor() or "unknown"
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table that is aligned in a terminal too; the first column to the left, numbers to the right."""
    cells = [[_shown(c) for c in row] for row in rows]
    widths = [max(len(c), *(len(r[at]) for r in cells)) for at, c in enumerate(columns)]

    def line(row: Sequence[str]) -> str:
        padded = [c.ljust(w) if at == 0 else c.rjust(w) for at, (c, w) in enumerate(zip(row, widths, strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * w if at == 0 else "-" * (w - 1) + ":") for at, w in enumerate(widths)]
    return "\n".join([line(list(columns)), line(rule), *(line(r) for r in cells)])


def _shown(value: object) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"
    return str(value)


def write_results(name: str, data: dict[str, Any]) -> Path:
    """Keeps the results with the machine's facts in `benchmarks/results/local/<name>.json`."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine_facts(), **data}, indent=2) + "\n", encoding="utf-8")
    return path
