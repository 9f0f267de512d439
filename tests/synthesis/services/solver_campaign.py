"""Has the second solver do service tasks of seeds that it never met.

    python -m tests.synthesis.services.solver_campaign --seeds 223 227 [--tasks N] [--questions N] [--only APP]

The solver reads instruction and tools alone (`solver.py`). What it fails is printed with the cause, for a person
to decide whether task or solver is wrong; `docs/experiments/service-tasks.md` has what was found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from assay.records import Task
from assay.synthesis.services.family import ServiceTasks
from tests.synthesis.services.solver import DESKS, solve
from tests.synthesis.services.test_solver import passes

RESULTS = Path(__file__).with_name("solver.json")
LEAST = 0.9
"""Share of the tasks of each kind that must pass."""


def attempt(task: Task) -> str | None:
    """Returns why the solver does not pass a task; None if it does."""
    try:
        desk = solve(task)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as exc:  # a sentence it misreads
        return f"{type(exc).__name__}: {exc}"
    if passes(task, desk):
        return None
    return "; ".join(map(str, desk.problems)) or "another state, answer or act than the checks want"


def measure(app: str, seed: int, tasks: int, questions: int) -> dict[str, Any]:
    """Returns the figures of one application and seed; `failed` maps tasks to causes."""
    row: dict[str, Any] = {"app": app, "seed": seed, "failed": {}}
    for kind, count in (("mixed", tasks), ("question", questions)):
        made = ServiceTasks(app=app, kind=kind).tasks(count, seed)
        causes = {f"{kind} {task.id}": why for task in made if (why := attempt(task)) is not None}
        row |= {kind: len(made), f"{kind}_passed": len(made) - len(causes), "failed": {**row["failed"], **causes}}
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.synthesis.services.solver_campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="seeds that the solver never met")
    parser.add_argument("--tasks", type=int, default=12, help="tasks of an application and a seed")
    parser.add_argument("--questions", type=int, default=3, help="questions of an application and a seed")
    parser.add_argument("--only", choices=sorted(DESKS), help="one application")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the result, a JSON file")
    given = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        for app in DESKS if given.only is None else (given.only,):
            rows.append(measure(app, seed, given.tasks, given.questions))
            sys.stdout.write(f"{json.dumps(rows[-1])}\n")
            sys.stdout.flush()
    sums = {key: sum(row[key] for row in rows) for key in ("mixed", "mixed_passed", "question", "question_passed")}
    sys.stdout.write(f"{json.dumps(sums)}\n")
    given.out.write_text(json.dumps({"commit": commit, "seeds": given.seeds, **sums, "rows": rows}, indent=1) + "\n")
    return 1 if any(sums[f"{kind}_passed"] < LEAST * sums[kind] for kind in ("mixed", "question")) else 0


if __name__ == "__main__":
    sys.exit(main())
