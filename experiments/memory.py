"""Does a memory of failed attempts help the next one? `docs/experiments/memory.md` has the results.

`maze`, 20 turns, six attempts at each task; the agent `explorer` reads texts alone. Arms: no memory across attempts; a
memory of all verified attempts at the task; one of its passes alone; and, for one attempt, the memory of other tasks,
once filtered by task as it is by default, once used all the same.

    python -m experiments.memory
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.agents.memory import read_memory
from assay.learning.memory import add_to_memory
from assay.learning.skills.chained_file import ChainedFile
from assay.records import Limits
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore, final_rows

from ._paired import mean_cell, range_cell

SEEDS, ROUNDS, TASKS = (1, 2, 3, 4, 5), 6, 40


async def attempt_round(
    settings: Settings, name: str, tasks: str, seed: int, memory: Path | None, **more: Any
) -> list[float]:
    """Makes one attempt at each task and returns which passed, in the order of the tasks."""
    options = more | ({} if memory is None else {"memory": str(memory)})
    config = RunConfig(tasks=(tasks,), agent="explorer", agent_options=options, run=name, seed=seed, limits=Limits())
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, name) as store:
        rows = sorted(final_rows(store.attempts()), key=lambda row: row.task)
    return [float(row.outcome == "pass") for row in rows]


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


def main() -> None:
    """Runs all seeds and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=Path(scratch))
        results = [asyncio.run(run_seed(seed, settings)) for seed in given.seeds]
    print("| arm | " + " | ".join(f"attempt {n}" for n in range(1, ROUNDS + 1)) + " | last - first [95%] | by seed |")
    print("|---|" + "---:|" * (ROUNDS + 2))
    for arm in ("none", "own", "passes"):
        rates = [fmean(fmean(result[arm][n]) for result in results) for n in range(ROUNDS)]
        pairs = [(a, b) for result in results for a, b in zip(result[arm][0], result[arm][-1], strict=True)]
        print(
            f"| {arm} | "
            + " | ".join(f"{rate:.3f}" for rate in rates)
            + f" | {_gain(pairs)} | {_seeds(results, arm)} |"
        )
    for arm in ("other, same-task", "other, any"):
        pairs = [(a, b) for result in results for a, b in zip(result["none"][0], result[arm][0], strict=True)]
        rate = fmean(fmean(result[arm][0]) for result in results)
        print(f"{arm}: {rate:.3f}, against none at the first attempt {_gain(pairs)}")


def _gain(pairs: list[tuple[float, float]]) -> str:
    return mean_cell([after - before for before, after in pairs])


def _seeds(results: list[dict[str, list[list[float]]]], arm: str) -> str:
    return range_cell([fmean(result[arm][-1]) - fmean(result[arm][0]) for result in results])


if __name__ == "__main__":
    main()
