"""Savings of racing, and how often it drops the best: `docs/experiments/evolution.md` has the results.

Simulated: six candidates, 96 tasks with uniform rates, one attempt at each, eight looks, level 5%. A candidate's effect
is added to every task's rate. `halving` keeps the better half of the candidates after a part of the tasks, as
`assay evolve` does; `grid` runs all of them.

    python -m experiments.racing --record
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.learning.evolution.racing import Race

from ._results import Table
from ._running import make_parser, open_recording

SEED, RACES = 5, 300
TASKS, LOOKS, LEVEL = 96, 8, 0.05
CASES = {
    "all equal": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "one is 10 points better": (0.1, 0.0, 0.0, 0.0, 0.0, 0.0),
    "one is 20 points better": (0.2, 0.0, 0.0, 0.0, 0.0, 0.0),
    "40 points from best to worst": (0.4, 0.32, 0.24, 0.16, 0.08, 0.0),
    "one is 60 points better": (0.6, 0.0, 0.0, 0.0, 0.0, 0.0),
}
Passes = NDArray[np.int64]


class Search(NamedTuple):
    """Result of one search."""

    winner: int
    attempts: int
    best_dropped: bool


def race(passes: Passes) -> Search:
    """Returns the result of racing on a table of passes, candidates by tasks."""
    names = [str(one) for one in range(len(passes))]
    made, one = 0, Race(names, attempts=1, looks=LOOKS, level=LEVEL)
    for part in np.split(np.arange(TASKS), LOOKS):
        made += len(one.left) * len(part)
        one.look({name: passes[int(name), part].tolist() for name in one.left})
    return Search(int(one.best()), made, "0" not in one.left)


def halve(passes: Passes) -> Search:
    """Returns the result of successive halving."""
    left, made, rungs = list(range(len(passes))), 0, (len(passes) - 1).bit_length()
    for rung in range(rungs):
        number = round(TASKS / 2 ** (rungs - 1 - rung))
        made += number * len(left)
        left = sorted(left, key=lambda one: -passes[one, :number].sum())[: max(1, (len(left) + 1) // 2)]
    return Search(left[0], made, 0 not in left)


def search_all(passes: Passes) -> Search:
    """Returns the result of a grid."""
    return Search(int(passes.sum(1).argmax()), passes.size, best_dropped=False)


def draw_passes(effects: Sequence[float], draw: np.random.Generator) -> Passes:
    """Returns passes of candidates at tasks, whose rates leave room for the largest effect."""
    rates = draw.uniform(0, 1 - max(effects), TASKS)
    passed: Passes = (draw.random((len(effects), TASKS)) < rates + np.array(effects)[:, None]).astype(np.int64)
    return passed


def make_table(races: int) -> Table:
    """Returns what each method saves and finds."""
    rows = []
    for name, effects in CASES.items():
        draw = np.random.default_rng(SEED)
        tables = [draw_passes(effects, draw) for _ in range(races)]
        for method, search in (("grid", search_all), ("halving", halve), ("racing", race)):
            found = [search(table) for table in tables]
            share = np.mean([one.attempts for one in found]) / tables[0].size
            best = "-" if not any(effects) else f"{np.mean([one.winner == 0 for one in found]):.3f}"
            lost = np.mean([one.best_dropped for one in found])
            rows.append([name, method, f"{share:.2f}", best, f"{lost:.3f}"])
    columns = ["candidates", "method", "attempts, of the grid's", "winner is the best", "best was dropped"]
    return Table(columns, rows)


def main() -> None:
    """Prints the table."""
    parser = make_parser(__doc__, store=False)
    parser.add_argument("--races", type=int, default=RACES)
    given = parser.parse_args()
    plan = f"{__doc__}\n{given.races} searches of each kind."
    recording = open_recording("racing", "racing", given, plan, [SEED])
    recording.write({"searches": make_table(given.races)})


if __name__ == "__main__":
    main()
