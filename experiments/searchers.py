"""How much do k searchers find, and how much of it twice? (results: `docs/experiments/teams.md`)

Letters of six towns, one letter of five holds what is needed of a town (`_letters_world`). Teams of 1, 2, 4 and 8
searchers and a navigator, in three ways to work together. Two budgets: the same 15 letters for every team, and 5
letters for each searcher. Coverage and duplication are those of `assay stats --table evidence`.

Set before the run, and after a try of the scripts at ten other tasks, in which searchers were made to read town by
town: sizes, ways, budgets, 20 tasks and five run seeds (1 to 5); with 5 letters a searcher, 8 led
searchers cover at least .30 more than 1; with 15 letters, 8 searchers that hear nothing cover at least .10 less than 1.

    python -m experiments.searchers --record
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from assay.analysis.evidence_graph import EvidenceGraph, build_evidence_graph
from assay.environments.worlds.opening import needed_facts
from assay.records import Trajectory
from assay.settings import Settings
from assay.tasks import find_tasks

from ._paired import mean_cell, range_cell, rate_cell
from ._results import Bar, Table
from ._running import make_parser, open_recording, open_store
from .teams import make_trajectories

WORLD = Path(__file__).with_name("_letters_world.py").resolve()
SEEDS, SIZES, WAYS = (1, 2, 3, 4, 5), (1, 2, 4, 8), ("alone", "shared", "led")
BUDGETS = {"15 letters in all": (15, 0), "5 letters a searcher": (0, 5)}
"""Letters in all, and for each searcher."""
TASKS = 20


class Cell(NamedTuple):
    """One attempt."""

    coverage: float
    finds: int
    repeated: int
    passed: float
    reads: int
    turns: int


def team(size: int, way: str) -> dict[str, Any]:
    """Returns the options of a team."""
    names = [f"s{number}" for number in range(1, size + 1)]
    searchers: list[dict[str, Any]] = [
        {"name": name, "agent": f"{WORLD}:Searcher", "tools": ["read"], "options": {"way": way, "name": name}}
        for name in names
    ]
    options = {"way": way, "searchers": names}
    navigator = {"name": "navigator", "agent": f"{WORLD}:Navigator", "tools": ["answer"], "options": options}
    heard_by = ["navigator"] if way != "shared" else ["navigator", *names]
    channels = [
        {"name": "reports", "writers": names, "readers": heard_by},
        {"name": "orders", "writers": ["navigator"], "readers": names},
    ]
    return {"roles": [navigator, *searchers], "channels": channels, "name": f"{size}-{way}"}


def tasks_of(reads: int, n: int = TASKS) -> str:
    """Returns the tasks with a budget; the letters are the same for all budgets."""
    return f"family:{WORLD}:LettersTasks,n={n},seed=11,reads={reads}"


async def measure(size: int, way: str, reads: int, seed: int, settings: Settings, n: int = TASKS) -> list[Cell]:
    """Makes or reads the attempts of one team with one seed, ordered by task."""
    tasks = tasks_of(reads, n)
    facts = {one.task.id: needed_facts(one.task) for one in find_tasks([tasks])}
    made = await make_trajectories(f"letters-{reads}-{size}-{way}", tasks, seed, settings, "team", team(size, way))
    made.sort(key=lambda one: one.task)
    return [_cell(one, build_evidence_graph(one, *facts[one.task])) for one in made]


def _cell(made: Trajectory, graph: EvidenceGraph) -> Cell:
    calls = [pair for step in made.steps for pair in zip(step.tool_calls, step.observations, strict=True)]
    reads = sum(call.name == "read" and not seen.error for call, seen in calls)
    passed = float(made.outcome == "pass")
    return Cell(graph.found / graph.needed, graph.finds, graph.repeated, passed, reads, len(made.steps))


Cells = dict[tuple[str, str, int], list[list[Cell]]]
"""By budget, way and size: a list for each seed."""


def make_table(cells: Cells, budget: str) -> Table:
    """Returns the table of one budget; gains are over one searcher that works in the same way, paired by task."""
    rows = []
    for way in WAYS:
        base = _flat(cells[budget, way, SIZES[0]])
        for size in SIZES:
            seeds = cells[budget, way, size]
            mine = _flat(seeds)
            gains = [a - b for a, b in zip(_task_means(seeds), _task_means(cells[budget, way, SIZES[0]]), strict=True)]
            finds = sum(one.finds for one in mine)
            rows.append(
                [
                    f"{way}, {size}",
                    rate_cell(_task_means(seeds)),
                    "-" if mine is base or size == SIZES[0] else mean_cell(gains),
                    range_cell([fmean(one.coverage for one in several) for several in seeds], ""),
                    f"{sum(one.repeated for one in mine) / finds:.3f}" if finds else "-",
                    f"{fmean(one.passed for one in mine):.3f}",
                    f"{fmean(one.reads for one in mine):.1f}",
                    f"{fmean(one.turns for one in mine):.1f}",
                ]
            )
    columns = ["way, searchers", "coverage [95%]", "over one [95%]", "by seed", "found again", "passed"]
    return Table([*columns, "letters read", "turns"], rows)


def _flat(seeds: list[list[Cell]]) -> list[Cell]:
    return [one for several in seeds for one in several]


def _task_means(seeds: list[list[Cell]]) -> list[float]:
    return [fmean(one.coverage for one in of_task) for of_task in zip(*seeds, strict=True)]


def make_bars(cells: Cells) -> list[Bar]:
    """Returns the bars that were set before the run."""

    def coverage(budget: str, way: str, size: int) -> float:
        return fmean(one.coverage for one in _flat(cells[budget, way, size]))

    in_all, each = BUDGETS
    gain = coverage(each, "led", 8) - coverage(each, "led", 1)
    loss = coverage(in_all, "alone", 1) - coverage(in_all, "alone", 8)
    return [
        Bar("5 letters a searcher: 8 led searchers cover at least .30 more than 1", f"{gain:+.3f}", met=gain >= 0.3),
        Bar("15 letters in all: 8 that hear nothing cover at least .10 less than 1", f"{-loss:+.3f}", met=loss >= 0.1),
    ]


async def run_all(settings: Settings, seeds: Sequence[int] = SEEDS) -> Cells:
    """Returns the cells of all teams."""
    cells: Cells = {}
    for budget, (in_all, each) in BUDGETS.items():
        for way in WAYS:
            for size in SIZES:
                reads = in_all + each * size
                cells[budget, way, size] = [await measure(size, way, reads, seed, settings) for seed in seeds]
    return cells


def main() -> None:
    """Runs all teams and prints the tables."""
    given = make_parser(__doc__, seeds=SEEDS).parse_args()
    plan = f"{TASKS} tasks, sizes {SIZES}, ways {WAYS}, budgets {list(BUDGETS)}"
    recording = open_recording("searchers", "searchers", given, plan, SEEDS)
    with open_store(given.store) as settings:
        cells = asyncio.run(run_all(settings, recording.seeds))
    recording.write({budget: make_table(cells, budget) for budget in BUDGETS}, make_bars(cells))


if __name__ == "__main__":
    main()
