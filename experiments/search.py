"""Is search over forks better than starting again, at equal acts? `docs/experiments/search.md` has the results.

Each attempt has 300 acts. `restarts` tries again at random and stops as soon as the verifier passes a try; `best-first`
searches over forks by one of three values: novelty, a value learnt from the verified attempts of a novelty search on
other tasks, and the world's own progress. Restarts and progress use privileged knowledge.

    python -m experiments.search
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.errors import UserError
from assay.learning.values import learn_value
from assay.settings import Settings
from assay.statistics import difference_interval

from .combinators import Arm, Cell, run_arm

SEEDS = (1, 2, 3, 4, 5)
ACTS, TASKS = 300, 40
WORLDS = {"adventure,rooms=7,locks=2": 300, "maze": 60, "sokoban": 60}
"""World to the number of tasks that its value is learnt on."""
SEARCH: dict[str, Any] = {"acts": ACTS}


async def _learn(world: str, seed: int, settings: Settings) -> tuple[Path | None, str]:
    """Returns the file of a value that is learnt on tasks that no arm sees, and the passes that it rests on; None where
    every attempt passed, so that there is nothing to learn."""
    tasks = f"family:{world},n={WORLDS[world]},seed={seed * 1000 + 7}"
    arm = Arm("explored", "best-first", SEARCH)
    await run_arm(arm, tasks, [seed], settings)
    try:
        learnt = learn_value([arm.run_name(tasks, seed)], settings, 0.9)
    except UserError:
        return None, "all"
    file = settings.store / f"{world.partition(',')[0]}-{seed}.json"
    file.write_bytes(msgspec.json.encode(learnt.value))
    return file, f"{learnt.passed} of {learnt.attempts}"


async def _world(world: str, seeds: list[int], settings: Settings) -> None:
    cells: dict[str, list[Cell]] = {}
    passes = []
    for seed in seeds:
        tasks = f"family:{world},n={TASKS},seed={seed}"
        value, rests_on = await _learn(world, seed, settings)
        passes.append(rests_on)
        arms = [
            Arm("restarts (verifier stops)", f"retry:{ACTS}:random-world", {"judge": "verdict"}, ACTS),
            Arm("best-first, novelty", "best-first", SEARCH | {"value": "novelty"}),
            Arm("best-first, learnt", "best-first", SEARCH | {"value": str(value)}),
            Arm("best-first, progress (privileged)", "best-first", SEARCH | {"value": "progress"}),
        ]
        for arm in arms:
            if arm.options.get("value") == "None":
                continue
            cells.setdefault(arm.label, []).append(await run_arm(arm, tasks, [seed], settings))
    base = next(iter(cells.values()))
    print(f"\n{world}; the value rests on {', '.join(passes)} passing attempts\n")
    print("| arm | passed | gain over restarts [95%] | by seed | acts |\n|---|---:|---:|---:|---:|")
    for label, found in cells.items():
        passed = [value for cell in found for value in cell.passed.values()]
        acts = [value for cell in found for value in cell.turns.values()]
        pairs = zip(found, base, strict=True)
        differences = [[cell.passed[key] - other.passed[key] for key in cell.passed] for cell, other in pairs]
        interval = difference_interval([one for several in differences for one in several])
        means = [fmean(one) for one in differences]
        ends = "" if interval is None else f" [{interval.low:+.3f}, {interval.high:+.3f}]"
        shown = "- | -" if found is base else f"{fmean(means):+.3f}{ends} | {min(means):+.2f} to {max(means):+.2f}"
        print(f"| {label} | {fmean(passed):.3f} | {shown} | {fmean(acts):.0f} |")


def main() -> None:
    """Runs all worlds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="where the runs are kept; default: a temporary folder")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=given.store or Path(scratch))
        for world in WORLDS:
            asyncio.run(_world(world, given.seeds, settings))


if __name__ == "__main__":
    main()
