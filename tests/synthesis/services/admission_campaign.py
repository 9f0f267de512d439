"""Admits whole benchmarks with the quick battery, and lists each refused task with the probes that refused it.

    python -m tests.synthesis.services.admission_campaign [--only SET ...] [--out FILE]

The sets are the domains of tau2-bench and WorkBench. The suite admits a part of their tasks again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.admission.soundness import TaskReport
from assay.records import Task
from assay.rollout import Tally
from assay.settings import Settings
from assay.synthesis.services.tau2 import Tau2Tasks
from assay.synthesis.services.workbench import WorkBenchTasks
from assay.tasks import LoadedTask
from tests.environments.services.benchmark_data import shared_folder

RESULTS = Path(__file__).with_name("admission.json")
TAU2 = ("airline", "retail", "telecom", "banking_knowledge", "mock")
SETS = (*TAU2, "workbench")


def tasks_of(name: str, most: int = 1_000) -> tuple[Task, ...]:
    """Returns the first tasks of a set; by default all."""
    if name == "workbench":
        return tuple(WorkBenchTasks(data=str(shared_folder("environments", "workbench"))).tasks(most, 0))
    return tuple(Tau2Tasks(domain=name, data=str(shared_folder("environments", "tau2"))).tasks(most, 0))


def refusals(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Returns the refused tasks, each with the names of the probes that show why, sorted."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(cache=Path(folder, "cache"), store=Path(folder, "store"))
        config = AdmitConfig(tasks=("given",), run="a", quick=True)
        loaded = [LoadedTask(task, None) for task in tasks]
        done = asyncio.run(admit(config, settings, Tally(), tasks=loaded))
    return {report.task: _causes(report) for report in done.reports if not report.is_admitted}


def _causes(report: TaskReport) -> list[str]:
    grave = [found for found in report.findings if found.severity in ("hole", "broken")]
    return sorted({found.probe or found.kind for found in grave})


def measure(name: str) -> dict[str, Any]:
    """Returns the figures of a set: its tasks, how many are refused for which cause, and which."""
    began = time.process_time()
    tasks = tasks_of(name)
    refused = refusals(tasks)
    causes: dict[str, int] = {}
    for found in refused.values():
        for cause in found:
            causes[cause] = causes.get(cause, 0) + 1
    return {
        "set": name,
        "tasks": len(tasks),
        "admitted": len(tasks) - len(refused),
        "causes": dict(sorted(causes.items())),
        "cpu_s": round(time.process_time() - began, 1),
        "refused": refused,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Admits whole benchmarks with the quick battery.")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    found = {one["set"]: one for one in json.loads(options.out.read_bytes())} if options.out.exists() else {}
    for name in options.only:
        found[name] = measure(name)
        listed = {key: value for key, value in found[name].items() if key != "refused"}
        sys.stdout.write(json.dumps(listed) + "\n")
        options.out.write_text(json.dumps([found[one] for one in SETS if one in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
