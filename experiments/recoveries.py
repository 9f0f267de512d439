"""Do remembered errors, recognised again, help at other tasks? `docs/experiments/memory.md` has the results.

Forms (`_forms_world`): the memory is of 40 attempts at tasks of their own; three arms make 60 others with the same
seeds: none; `recover`; and a placebo, whose recoveries are the same texts, each under the signature of another error.

    python -m experiments.recoveries --record
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import fmean

import msgspec

from assay.agents.memory import MemoryItem, MemoryRecord, read_memory
from assay.learning.memory import add_to_memory
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.store.chained_file import ChainedFile

from ._paired import arm_cells
from ._results import Table
from ._running import make_parser, open_recording, open_store, run_outcomes

WORLD = Path(__file__).with_name("_forms_world.py").resolve()
ARMS = ("none", "recover", "placebo")
SEEDS = (1, 2, 3, 4, 5)


async def make_attempts(settings: Settings, name: str, n: int, seed: int, memory: Path | None) -> list[float]:
    """Makes one attempt at each task and returns which passed, in the order of the tasks."""
    options: dict[str, object] = {"system": "", "seeded": True, "recall": 0}
    if memory is not None:
        options |= {"memory": str(memory), "recover": True, "scope": "any"}
    tasks = (f"family:{WORLD}:FormTasks,n={n},seed={seed}",)
    config = RunConfig(
        tasks=tasks, agent="loop", agent_options=options, model=f"scripted:{WORLD}:answer", run=name, seed=seed
    )
    return list((await run_outcomes(config, settings)).values())


def write_placebo(memory: Path, placebo: Path) -> None:
    """Writes a memory whose recoveries stand under the signature of the next error in alphabetical order."""
    records = read_memory(memory)
    known = sorted({item.when for record in records for item in record.items if item.kind == "recovery"})
    other = dict(zip(known, [*known[1:], *known[:1]], strict=True))

    def move(item: MemoryItem) -> MemoryItem:
        return msgspec.structs.replace(item, when=other[item.when]) if item.kind == "recovery" else item

    placebo.unlink(missing_ok=True)
    previous = ""
    with ChainedFile(placebo, MemoryRecord).locked() as append:
        for record in records:
            moved = msgspec.structs.replace(record, items=tuple(map(move, record.items)), previous=previous)
            append(moved)
            previous = moved.digest


async def run_seed(seed: int, settings: Settings, *, learnt: int = 40, held_out: int = 60) -> dict[str, list[float]]:
    """Returns the outcomes of each arm."""
    memory, placebo = settings.store / f"m-{seed}.jsonl", settings.store / f"p-{seed}.jsonl"
    await make_attempts(settings, f"first-{seed}", learnt, seed + 1_000, None)
    add_to_memory(memory, [f"first-{seed}"], settings)
    write_placebo(memory, placebo)
    files = {"none": None, "recover": memory, "placebo": placebo}
    return {arm: await make_attempts(settings, f"{arm}-{seed}", held_out, seed, files[arm]) for arm in ARMS}


def count_memory(memory: Path) -> tuple[int, int]:
    """Returns the passing attempts of a memory, and the errors that it has a recovery of."""
    records = read_memory(memory)
    known = {item.when for record in records for item in record.items if item.kind == "recovery"}
    return sum(record.passed for record in records), len(known)


def main() -> None:
    """Runs all seeds."""
    given = make_parser(__doc__, seeds=SEEDS).parse_args()
    recording = open_recording("recoveries", "recoveries", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        results = [asyncio.run(run_seed(seed, settings)) for seed in recording.seeds]
        counts = [count_memory(settings.store / f"m-{seed}.jsonl") for seed in recording.seeds]
    none = [result["none"] for result in results]
    rows = [[arm, *arm_cells([result[arm] for result in results], None if arm == "none" else none)] for arm in ARMS]
    seeds = [
        [str(seed), str(passes), str(known), f"{fmean(result['recover']):.3f}"]
        for seed, (passes, known), result in zip(recording.seeds, counts, results, strict=True)
    ]
    tables = {
        "arms": Table(["arm", "passed", "by seed", "against none [95%]"], rows),
        "memories": Table(["seed", "passes in the memory", "errors known of five", "passed with `recover`"], seeds),
    }
    recording.write(tables)


if __name__ == "__main__":
    main()
