"""Evolution of the configuration of `repair` against the hand-set one (results: `docs/experiments/evolution.md`).

Each search is an `assay evolve`: `batch` (evaluations of one step, after which the edits are ranked anew) and `cpu_s`
(limit of one evaluation) may change, at the same budget of 20 evaluations, which one step uses up as they are set by
hand. A half of the 24 synthesised tasks of `assay demo`, drawn by the seed, serves the search and the other half its
gate. The seeds share these 24 tasks: within a seed no task of the gate was searched on, between seeds they overlap.

Set before the run with `--record`: five searches by coordinates, one look, level 0.05 each, one attempt at each task
with run seeds of its own in each search. No bar: 12 tasks, of which some five pass, show a gain of the gate's only if
it is large. An earlier run had two searches, of every second task, and neither found a gain.

    python -m experiments.repair_evolution .assay/demo-tasks-0-24
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec

from assay.learning.evolution.evolve import EvolveReport, evolve
from assay.learning.evolution.recipe import EvolveRecipe
from assay.settings import Settings

from ._results import Recording, Table
from ._running import make_parser, open_recording, open_store
from .evolution import decision_cells

SEEDS = (1, 2, 3, 4, 5)
BASE = {"budget": 20, "batch": 20, "cpu_s": 3.0}
SPACE = {"batch": [5, 10, 20], "cpu_s": [1.0, 3.0]}


def make_recipe(folder: Path, seed: int) -> EvolveRecipe:
    """Returns the search on a half of the tasks, with the others for the gate."""
    tasks = [str(path.parent) for path in sorted(folder.glob("*/task.toml"))]
    random.Random(seed).shuffle(tasks)
    halves = tasks[: len(tasks) // 2], tasks[len(tasks) // 2 :]
    fields = {
        "name": f"repair-{seed}", "agent": "repair", "base": BASE, "space": SPACE, "concurrency": 2,
        "search": {"tasks": halves[0], "seed": seed * 100},
        "gate": {"tasks": halves[1], "seed": seed * 100 + 1, "looks": 1},
    }  # fmt: skip
    return msgspec.convert(fields, EvolveRecipe)


def report(found: list[EvolveReport], recording: Recording) -> None:
    """Reports every configuration that was measured, and the decisions."""
    searches, candidates = [], []
    for one in found:
        changed = ", ".join(f"{k}={v}" for k, v in one.winner.items() if one.base.get(k) != v) or "the base"
        searches.append([one.name, changed, *decision_cells(one)])
        for candidate in one.candidates:
            options = f"batch {candidate.options['batch']}, cpu_s {candidate.options['cpu_s']:g}"
            candidates.append([one.name, options, f"{candidate.rate:.3f}"])
    columns = ["search", "winner", "claimed by the search", "on held-out tasks", "decision"]
    tables = {"searches": Table(columns, searches)}
    recording.write(tables | {"candidates": Table(["search", "configuration", "on its tasks"], candidates)})


async def run(folder: Path, settings: Settings, recording: Recording) -> None:
    """Makes all searches; each has a store of its own, because their tasks overlap."""
    found = []
    for seed in recording.seeds:
        own = msgspec.structs.replace(settings, store=settings.store / str(seed))
        found.append(await evolve(make_recipe(folder, seed), own, lambda text: print(text, flush=True)))
    report(found, recording)


def main() -> None:
    """Runs the experiment."""
    parser = make_parser(__doc__, seeds=SEEDS)
    parser.add_argument("folder", type=Path, help="task folders, as `assay demo` makes them")
    given = parser.parse_args()
    recording = open_recording("repair-evolution", f"repair_evolution {given.folder}", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        asyncio.run(run(given.folder, settings, recording))


if __name__ == "__main__":
    main()
