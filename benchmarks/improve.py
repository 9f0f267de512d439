"""Five trainings of `recipes/grid.toml` from nothing, each seed shown: held-out success before, on the way and after.

    python -m benchmarks.improve [--quick] [--out FOLDER] [--seeds 5]

One `assay improve` after the other, as a user would start it; a seed that was cut goes on. Success is that of 200
held-out tasks that share no world with those trained on, sampled at temperature 1, with 95 % intervals over tasks. CPU
is that of the whole process tree.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks._report import Report, Target, options

RECIPE = Path(__file__).parent.parent / "recipes" / "grid.toml"
QUICK = ("steps=2", "teach.sft.steps=20", "rollout.groups=2", "evaluate.every=1", "gate.least=0.0", "gate.better=false")
MOST_BEFORE, LEAST_AFTER, MOST_S = 0.40, 0.90, 600.0
TIME = "seconds.json"


def trained(seed: int, out: Path, *, quick: bool) -> dict[str, Any]:
    """The row of one seed."""
    folder, store = out / "trained", out / "store"
    command = [str(Path(sys.executable).with_name("assay")), "improve", str(RECIPE), "--seed", str(seed)]
    command += ["--set", f"folder={folder}", "--store", str(store), "--json"]
    command += [part for change in QUICK if quick for part in ("--set", change)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"seed {seed} ended with {done.returncode}")
    report = json.loads(done.stdout)
    spent = {"seconds": time.monotonic() - began, "cpu_s": _cpu(after) - _cpu(before)}
    kept = folder / f"{report['name']}-{seed}" / TIME
    if kept.is_file() and report["seconds"] < 60:  # looked up, not trained again
        spent = json.loads(kept.read_text())
    kept.write_text(json.dumps(spent))
    curve = {f"after step {point['step']}": _shown(point) for point in report["curve"]}
    return {
        "seed": str(seed),
        **curve,
        "seconds": round(spent["seconds"]),
        "cpu_s": round(spent["cpu_s"]),
        "gate": "accepted" if report["accepted"] else "refused",
        "version": report["version"],
        "before": report["before"]["success"],
        "after": report["after"]["success"],
    }


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _shown(point: dict[str, Any]) -> str:
    if point["success"] is None:
        return "unknown"
    return f"{point['success']:.3f} [{point['low']:.2f}, {point['high']:.2f}]"


def main(arguments: list[str] | None = None) -> None:
    parser = options("improve", "Five trainings from nothing.")
    parser.add_argument("--out", type=Path, default=Path("grid-seeds"), help="where models and the store go")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    rows = [trained(seed, given.out.resolve(), quick=given.quick) for seed in range(given.seeds)]
    before, after = (statistics.median(row[side] for row in rows) for side in ("before", "after"))
    targets = [
        Target("held-out success before, median of the seeds", "success at most", MOST_BEFORE, before),
        Target("held-out failure after, median of the seeds", "failure at most", 1 - LEAST_AFTER, round(1 - after, 4)),
        Target("a training from nothing, the slowest seed", "s", MOST_S, max(row["seconds"] for row in rows)),
    ]
    columns = tuple(name for name in rows[0] if name not in ("before", "after", "version"))
    how = f"{RECIPE.name}, seeds 0 to {given.seeds - 1}; 200 held-out tasks; 95 % intervals."
    Report("improve", how, rows, targets, {}).finish(columns, given.into)


if __name__ == "__main__":
    main()
