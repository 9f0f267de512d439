"""Worth of own retrieval beside an oracle's, at linked tasks: `docs/experiments/memory.md` has the results.

Twelve offices, each with forms and rules of its own (`_forms_world`): a task is linked to the others of its office. The
memory is of two verified attempts at other tasks of each office. Arms, the same tasks and seeds: none; `own`, which
retrieves items of all records by BM25; `oracle`, which retrieves from the records of the task's office alone; and
`unlinked`, from those of the next office.

    python -m experiments.linked_tasks --record
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from assay.learning.memory import add_to_memory
from assay.rollout import RunConfig
from assay.settings import Settings

from ._forms_world import OFFICES
from ._paired import arm_cells
from ._results import Table
from ._running import make_parser, open_recording, open_store, run_outcomes

WORLD = Path(__file__).with_name("_forms_world.py").resolve()
ARMS = ("none", "own", "oracle", "unlinked")
SEEDS, RECALLS = (1, 2, 3, 4, 5), (3, 6)
NUMBERS = tuple(range(1, len(OFFICES) + 1))


def tasks_of(office: int, n: int, seed: int) -> str:
    """Returns the tasks of an office."""
    return f"family:{WORLD}:FormTasks,n={n},office={office},seed={seed}"


async def attempt_office(
    settings: Settings, name: str, office: int, seed: int, memory: Path | None, recall: int
) -> list[float]:
    """Makes one attempt at each held-out task of an office and returns which passed."""
    options: dict[str, object] = {"system": "", "seeded": True, "recall": recall}
    options |= {} if memory is None else {"memory": str(memory), "scope": "any"}
    config = RunConfig(
        tasks=(tasks_of(office, 4, seed),), agent="loop", agent_options=options, model=f"scripted:{WORLD}:answer",
        run=name, seed=seed,
    )  # fmt: skip
    return list((await run_outcomes(config, settings)).values())


async def run_seed(
    seed: int, settings: Settings, recalls: tuple[int, ...], offices: tuple[int, ...] = NUMBERS
) -> dict[tuple[str, int], list[float]]:
    """Returns the outcomes of each arm with each number of items."""
    every, files = settings.store / f"all-{seed}.jsonl", dict[int, Path]()
    for office in offices:
        name = f"known-{seed}-{office}"
        config = RunConfig(tasks=(tasks_of(office, 2, seed + 1_000),), agent="oracle", run=name)
        await run_outcomes(config, settings)
        files[office] = settings.store / f"{name}.jsonl"
        for file in (files[office], every):
            add_to_memory(file, [name], settings)
    found = dict[tuple[str, int], list[float]]()
    for recall in recalls:
        for arm in ARMS:
            for office, other in zip(offices, (*offices[1:], offices[0]), strict=True):
                memory = {
                    "none": None, "own": every, "oracle": files[office], "unlinked": files[other],
                }[arm]  # fmt: skip
                name = f"{arm}-{recall}-{seed}-{office}"
                found.setdefault((arm, recall), []).extend(
                    await attempt_office(settings, name, office, seed, memory, recall)
                )
    return found


def main() -> None:
    """Runs all seeds."""
    given = make_parser(__doc__, seeds=SEEDS).parse_args()
    recording = open_recording("linked-tasks", "linked_tasks", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        results = [asyncio.run(run_seed(seed, settings, RECALLS)) for seed in recording.seeds]
    rows = []
    for recall in RECALLS:
        none = [result["none", recall] for result in results]
        for arm in ARMS:
            cells = arm_cells([result[arm, recall] for result in results], None if arm == "none" else none)
            rows.append([f"{recall} items, {arm}", *cells])
    recording.write({"arms": Table(["items shown, arm", "passed", "by seed", "against none [95%]"], rows)})


if __name__ == "__main__":
    main()
