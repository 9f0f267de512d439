"""CPU of admitting made tasks, of this version and of another one in turns, and whether both find the same."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._cpu import Groups

ROOT = Path(__file__).parents[1]
PROGRAM = "import sys; sys.argv[0] = 'assay'; from assay.cli import main; main()"
ADMITTED, QUICKLY = "admit, a task", "admit --quick, a task"
DEPTHS = {QUICKLY: ("--quick",), ADMITTED: ()}


class Admission(NamedTuple):
    """One admission of some tasks."""

    cpu_s: float
    findings: dict[str, list[list[str]]]
    """Task to its findings and its result."""


def measure_admissions(
    scratch: Path, tasks: Sequence[Path], before: Path | None, rounds: int
) -> Iterator[dict[str, Any]]:
    """Yields a row a depth: the median over rounds of one command that admits all tasks, by task. With a checkout of an
    earlier version (`before`), each round runs both, and the row has the cost beside it and the number of tasks with
    other findings. Yields nothing where no accounting group can be made."""
    versions = {"own": ROOT, **({"before": before.absolute()} if before is not None else {})}
    for what, options in DEPTHS.items():
        found: dict[str, list[Admission]] = {name: [] for name in versions}
        for number in range(rounds):
            for name, checkout in versions.items():
                admission = _admit(checkout, scratch, tasks, (*options, "--run", f"{name}-{number}{''.join(options)}"))
                if admission is None:
                    return
                found[name].append(admission)
        cpu_s = {name: statistics.median(one.cpu_s for one in ones) / len(tasks) for name, ones in found.items()}
        row = {"what": what, "size": len(tasks), "cpu_s": cpu_s["own"]}
        if before is not None:
            unequal = {task for one in found["before"] for task in _unequal(found["own"][0], one)}
            row |= {"beside_before": cpu_s["own"] / cpu_s["before"], "unequal_findings": len(unequal)}
        yield row


def _unequal(one: Admission, other: Admission) -> set[str]:
    every = {*one.findings, *other.findings}
    return {task for task in every if one.findings.get(task) != other.findings.get(task)}


def _admit(checkout: Path, scratch: Path, tasks: Sequence[Path], options: Sequence[str]) -> Admission | None:
    """Admits tasks in a process of its own, whose sandboxes an accounting group counts; None without groups."""
    words = ["admit", *map(str, tasks), *options, "--store", str(scratch / f"admitted-{options[-1]}"), "--json"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(checkout / "src")}
    with Groups() as groups:
        groups.enter("admit")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words], cwd=scratch, capture_output=True, env=environment
        )
        cpu_ms = groups.cpu_ms("admit")
    if done.returncode not in (0, 1):  # 1: a task is not admitted
        raise SystemExit(f"assay admit of {checkout} failed: {done.stderr.decode()[-500:]}")
    if cpu_ms is None:
        return None
    report = json.loads(done.stdout)["report"]
    return Admission(cpu_ms / 1e3, {one["task"]: _findings_of(one) for one in report["tasks"]})


def _findings_of(task: dict[str, Any]) -> list[list[str]]:
    told = [[one["kind"], str(one["probe"]), one["severity"]] for one in task["findings"]]
    return [*sorted(told), [f"{name}: {admitted}" for name, admitted in sorted(task["admitted"].items())]]
