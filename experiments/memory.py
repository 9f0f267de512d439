"""Does a memory of failed attempts help the next one? `docs/experiments/memory.md` has the results.

`maze`, 20 turns, six attempts at each task; the agent `explorer` reads texts alone. Arms: no memory across attempts; a
memory of all verified attempts at the task; one of its passes alone; and, for one attempt, the memory of other tasks,
once filtered by task as it is by default, once used all the same.

Set before the runs: five seeds; with the task's own memory the sixth attempt passes at least 30 points more than the
first; another task's memory is refused or harmless (with it, filtered, no attempt ends otherwise than without).

    python -m experiments.memory --record
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.agents.memory import read_memory
from assay.learning.memory import add_to_memory
from assay.records import Limits
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.store.chained_file import ChainedFile

from ._paired import mean_cell, range_cell
from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording, open_store, run_outcomes

SEEDS, ROUNDS, TASKS = (1, 2, 3, 4, 5), 6, 40


async def attempt_round(
    settings: Settings, name: str, tasks: str, seed: int, memory: Path | None, **more: Any
) -> list[float]:
    """Makes one attempt at each task and returns which passed, in the order of the tasks."""
    options = more | ({} if memory is None else {"memory": str(memory)})
    config = RunConfig(tasks=(tasks,), agent="explorer", agent_options=options, run=name, seed=seed, limits=Limits())
    return list((await run_outcomes(config, settings)).values())


def keep_passes(memory: Path, passes: Path) -> None:
    """Writes the records of passing attempts to another memory."""
    passes.unlink(missing_ok=True)
    previous = ""
    with ChainedFile(passes, type(read_memory(memory)[0])).locked() as append:
        for record in read_memory(memory):
            if record.passed:
                append(msgspec.structs.replace(record, previous=previous))
                previous = msgspec.structs.replace(record, previous=previous).digest


async def run_seed(seed: int, settings: Settings) -> dict[str, list[list[float]]]:
    """Returns for each arm the outcomes of each round."""
    tasks, found = f"family:maze,n={TASKS},turns=20,seed={seed}", dict[str, list[list[float]]]()
    for arm in ("none", "own", "passes"):
        memory, used = settings.store / f"{arm}-{seed}.jsonl", settings.store / f"{arm}-{seed}-used.jsonl"
        for number in range(1, ROUNDS + 1):
            has_any = used.exists() and bool(used.stat().st_size)
            name, run_seed = f"{arm}-{seed}-{number}", seed * 100 + number
            outcomes = await attempt_round(settings, name, tasks, run_seed, used if has_any else None)
            found.setdefault(arm, []).append(outcomes)
            add_to_memory(memory, [name], settings)
            if arm == "own":
                used.write_bytes(memory.read_bytes())
            elif arm == "passes":
                keep_passes(memory, used)
    others = settings.store / f"others-{seed}.jsonl"
    for number in range(1, ROUNDS + 1):
        name = f"others-{seed}-{number}"
        await attempt_round(settings, name, f"family:maze,n={TASKS},turns=20,seed={seed + 5000}", number, None)
        add_to_memory(others, [name], settings)
    for scope in ("same-task", "any"):
        name, first = f"other-{scope}-{seed}", seed * 100 + 1
        found[f"other, {scope}"] = [await attempt_round(settings, name, tasks, first, others, scope=scope)]
    return found


def report(results: Sequence[dict[str, list[list[float]]]], recording: Recording) -> None:
    """Reports the arms by attempt, the memory of other tasks, and the bars."""

    def differences(one: tuple[str, int], other: tuple[str, int]) -> list[list[float]]:
        """Returns `other` minus `one`, each an arm and the number of an attempt, by seed and task."""
        return [
            [b - a for a, b in zip(result[one[0]][one[1]], result[other[0]][other[1]], strict=True)]
            for result in results
        ]

    rows, gains = [], dict[str, float]()
    for arm in ("none", "own", "passes"):
        rates = [f"{fmean(fmean(result[arm][n]) for result in results):.3f}" for n in range(ROUNDS)]
        by_seed = differences((arm, 0), (arm, -1))
        each = [value for values in by_seed for value in values]
        gains[arm] = fmean(each)
        rows.append([arm, *rates, mean_cell(each), range_cell([fmean(values) for values in by_seed])])
    others = []
    for arm, shown in (("other, same-task", "refused (`scope=same-task`)"), ("other, any", "used (`scope=any`)")):
        each = [value for values in differences(("none", 0), (arm, 0)) for value in values]
        gains[arm] = fmean(each)
        others.append([shown, f"{fmean(fmean(result[arm][0]) for result in results):.3f}", mean_cell(each)])
    changed = sum(any(values) for values in differences(("none", 0), ("other, same-task", 0)))
    columns = ["arm", *(f"attempt {n}" for n in range(1, ROUNDS + 1)), "last - first [95%]", "by seed"]
    tables = {
        "attempts": Table(columns, rows),
        "other tasks": Table(["memory of other tasks", "attempt 1", "against no memory [95%]"], others),
    }
    bars = [
        Bar("own memory: the sixth attempt at least 30 points above the first", f"{gains['own']:+.3f}",
            gains["own"] >= 0.3),
        Bar("another task's memory refused, or harmless", f"refused: an outcome differs in {changed} seeds; used all "
            f"the same: {gains['other, any']:+.3f}", not changed),
    ]  # fmt: skip
    recording.write(tables, bars)


def main() -> None:
    """Runs all seeds and prints the tables."""
    given = make_parser(__doc__, seeds=SEEDS).parse_args()
    recording = open_recording("maze-memory", "memory", given, __doc__, SEEDS)
    results = []
    with open_store(given.store) as settings:
        for seed in recording.seeds:
            results.append(asyncio.run(run_seed(seed, settings)))
            print(f"seed {seed} is done", flush=True)
    report(results, recording)


if __name__ == "__main__":
    main()
