"""Worth of a memory of a site's pages to a planner: `docs/experiments/page-memory.md` has the results.

Sites of state machines in a real Chromium. Memory of a site: verified attempts of `oracle` and `page-walker` at three
tasks with short ways. Held out: tasks on the same site with longer ways, so other goals. Arms of `page-planner`: no
memory; the site's own; that of the site of the same name and address that another seed drew, so with other links and
forms; and that of a site at another address.

    python -m experiments.page_memory --record
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from assay.learning.memory import add_to_memory
from assay.learning.trainer.rollouts import complete_run
from assay.records import Limits
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.store import RunStore, final_rows
from assay.synthesis.sites.family import SiteTasks

from ._paired import mean_cell, rate_cell
from ._results import Table
from ._running import make_parser, open_recording, open_store

SITE, SEEDS, OTHER = "library", (1, 2, 3, 4, 5), ("museum", 3)
SHORT, LONG = {"n": 3, "least": 3, "most": 5}, {"n": 3, "least": 6, "most": 9}
ACTS, WALKED = 20, 25
ARMS = ("none", "own", "other draw", "other site")
Outcomes = dict[tuple[int, str], tuple[float, float]]
"""Success and acts between pages, by seed and task."""


async def run_tasks(
    settings: Settings, name: str, site: str, seed: int, lengths: Mapping[str, int], agent: str, **options: Any
) -> str:
    """Makes, resumes or finds a run; returns its name."""
    parts = ",".join(f"{key}={value}" for key, value in {"site": site, **lengths, "seed": seed}.items())
    config = RunConfig(
        tasks=(f"family:sites,{parts}",),
        agent=agent,
        agent_options=options,
        run=name,
        seed=seed,
        limits=Limits(turns=150),
    )
    await complete_run(config, settings)
    return name


async def make_memory(settings: Settings, site: str, seed: int) -> Path:
    """Returns the memory of a site."""
    file = settings.store / f"{site}-{seed}.jsonl"
    if not file.exists():
        runs = [
            await run_tasks(settings, f"oracle-{site}-{seed}", site, seed, SHORT, "oracle"),
            await run_tasks(settings, f"walker-{site}-{seed}", site, seed, SHORT, "page-walker", acts=WALKED),
        ]
        add_to_memory(file, runs, settings)
    return file


def read_outcomes(settings: Settings, run: str, seed: int) -> Outcomes:
    """Returns the outcomes of the held-out tasks that are on the site of the memory."""
    short, held_out = (SiteTasks(site=SITE, least=part["least"], most=part["most"]) for part in (SHORT, LONG))
    remembered = {task.environment.seed for task in short.tasks(SHORT["n"], seed)}
    kept = {task.id for task in held_out.tasks(LONG["n"], seed) if {task.environment.seed} == remembered}
    found: Outcomes = {}
    with RunStore.open(settings.store, run) as store:
        for row in final_rows(store.attempts()):
            if row.task in kept:
                counts = next(e.data for e in store.trajectory(row.chain).evidence if e.kind == "page_planner")
                acts = counts.get("planned", 0) + counts.get("explored", 0)
                found[seed, row.task] = (float(row.outcome == "pass"), float(acts))
    return found


async def measure(settings: Settings) -> dict[str, Outcomes]:
    """Returns the outcomes of each arm."""
    found: dict[str, Outcomes] = {arm: {} for arm in ARMS}
    for number, seed in enumerate(SEEDS):
        other_draw = SITE, SEEDS[(number + 1) % len(SEEDS)]
        memories = {"own": (SITE, seed), "other draw": other_draw, "other site": OTHER}
        for arm in ARMS:
            options = {"memory": str(await make_memory(settings, *memories[arm]))} if arm in memories else {}
            name = f"{arm.replace(' ', '-')}-{seed}"
            await run_tasks(settings, name, SITE, seed, LONG, "page-planner", acts=ACTS, **options)
            found[arm] |= read_outcomes(settings, name, seed)
    return found


def make_table(found: dict[str, Outcomes]) -> Table:
    """Returns the arms, against none."""
    rows, none = [], found["none"]
    for arm, outcomes in found.items():
        passed = [one[0] for one in outcomes.values()]
        gains = [outcomes[task][0] - none[task][0] for task in outcomes]
        acts = [(outcomes[task][1] - none[task][1]) / ACTS for task in outcomes]
        by_seed = [fmean(one[0] for task, one in outcomes.items() if task[0] == seed) for seed in SEEDS]
        shown = ["-", "-"] if outcomes is none else [mean_cell(gains), mean_cell(acts, ACTS, 1)]
        mean_acts, seeds = f"{fmean(o[1] for o in outcomes.values()):.1f}", ", ".join(f"{one:.2f}" for one in by_seed)
        rows.append([arm, str(len(outcomes)), rate_cell(passed), shown[0], mean_acts, shown[1], seeds])
    columns = ["memory", "tasks", "success [95%]", "success minus none [95%]", "acts", "acts minus none [95%]"]
    return Table([*columns, "success by seed"], rows)


def main() -> None:
    """Makes all runs."""
    given = make_parser(__doc__).parse_args()
    recording = open_recording("page-memory", "page_memory", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        recording.write({"arms": make_table(asyncio.run(measure(settings)))})


if __name__ == "__main__":
    main()
