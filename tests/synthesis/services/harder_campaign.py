"""Tries what the options that make tasks harder promise, on a small sample, on the ordinary rollout and admission.

    python -m tests.synthesis.services.harder_campaign [--tasks N] [--seed S] [--only APP] [--out FILE]

Per application and set of options: the reference solution passes every task; doing nothing, talking and the calls of
another seed pass none; no two tasks are near-duplicates except twins; admission admits all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.errors import UserError
from assay.records import Task
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.synthesis.services.family import ServiceTasks
from assay.tasks import LoadedTask
from tests.synthesis.services.campaign import APPS, admit_all

RESULTS = Path(__file__).with_name("harder_results.json")
PERSON = {"level": "persona"}
SETS: dict[str, dict[str, Any]] = {
    "days": {"days": 3},
    "distractors": {"distractors": 2},
    "reads": {"reads": 3},
    "person": {**PERSON, "mood": "mixed", "patience": 6, "disclosure": "mixed", "wrong": 1},
    "changed": {**PERSON, "changed": True},
    "tell": {**PERSON, "tell": True},
    "ambiguous twins": {**PERSON, "kind": "ambiguous", "twins": True},
    "impossible twins": {"kind": "impossible", "twins": True},
    "forbidden twins": {"kind": "forbidden", "twins": True},
    "all": {
        **PERSON, "days": 2, "distractors": 1, "reads": 2, "mood": "hurried", "disclosure": "precise", "wrong": 1,
        "tell": True,
    },
}  # fmt: skip


def measure(app: str, name: str, count: int, seed: int, cache: Path) -> dict[str, Any]:
    """Returns the figures of one application with one set of options; `failures` lists what breaks a promise."""
    options = {"app": app, "needs": True, **SETS[name]}
    try:
        made = ServiceTasks(**options, distinct=True).make_set(count, seed)
    except UserError as exc:
        return {"app": app, "options": name, "tasks": 0, "failures": [], "without": str(exc)}
    tasks = made.tasks
    failures = [] if ServiceTasks(**options, distinct=True).tasks(count, seed) == tasks else ["not repeatable"]
    with tempfile.TemporaryDirectory() as store:
        settings = Settings(cache=cache, store=Path(store))
        oracle, null = (asyncio.run(_passes(tasks, agent, settings)) for agent in ("oracle", "null"))
        admitted = asyncio.run(admit_all(tasks, settings))
    failures += [f"not admitted: {task}" for task, found in admitted.items() if not found["admitted"]]
    blind = sum(found["blind"] == "pass" for found in admitted.values())
    talk = sum(found["talk"] for found in admitted.values())
    if oracle != len(tasks) or null or blind > 0.02 * len(tasks) or talk:
        failures.append("a bar is not met")
    return {
        "app": app,
        "options": name,
        "tasks": len(tasks),
        "oracle": oracle,
        "null": null,
        "blind_replay": blind,
        "talk": talk,
        "admitted": sum(found["admitted"] for found in admitted.values()),
        "weak": sum(found["weak"] for found in admitted.values()),
        "events": sum(task.metadata.get("event") is True for task in tasks),
        "left_out": dict(made.dropped),
        "failures": failures,
    }


async def _passes(tasks: Sequence[Task], agent: str, settings: Settings) -> int:
    config = RunConfig(tasks=("given",), agent=agent, run=agent)
    done = await start_run(config, settings, Tally(), tasks=[LoadedTask(task, None) for task in tasks])
    with RunStore.open(done.store, done.run) as store:
        return sum(row.outcome == "pass" for row in store.attempts())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.synthesis.services.harder_campaign", description=__doc__)
    parser.add_argument("--tasks", type=int, default=6, help="tasks of an application and a set of options")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one application")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the result, a JSON file")
    given = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        for app in APPS if given.only is None else (given.only,):
            for name in SETS:
                row = measure(app, name, given.tasks, given.seed, Path(cache))
                rows.append(row)
                sys.stdout.write(f"{json.dumps(row)}\n")
                sys.stdout.flush()
                given.out.write_text(json.dumps({"commit": commit, "seed": given.seed, "sets": rows}, indent=1) + "\n")
    return 1 if any(row["failures"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
