"""Several tries: how much they buy, and whether a picker fools itself (results: `docs/experiments/several-tries.md`).

Every cell is an ordinary run: the same tasks of a family, five run seeds, one agent as it is and inside combinators.
Success is the verified outcome; cost is turns over all tries. The judge `verdict` is the task's own verifier (an upper
bound); `claims_done` takes the agent's own word, `nearly_there` accepts one step before the goal, too, and `plausible`
reads the distance with noise.

    python -m experiments.combinators worlds --record
    python -m experiments.combinators overfit --record
    python -m experiments.combinators hybrid --record
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from assay.agents.combinators.judges import FinishedTry
from assay.learning.trainer.rollouts import complete_run
from assay.records import Limits
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.store import AttemptRow, RunStore
from experiments._paired import gain_cells, mean_cell, task_means
from experiments._results import Table
from experiments._running import make_parser, open_recording, open_store

SEEDS = (1, 2, 3, 4, 5)
TASKS = 40
NOISY = {"tables": 0.6, "key-value": 0.6}
"""Family to the share of random acts of the agent `expert`."""


class Arm(NamedTuple):
    """One agent with its options."""

    label: str
    agent: str
    options: dict[str, Any]
    max_turns: int | None = None
    """Limit of an attempt's turns, over all of its tries."""

    def run_name(self, tasks: str, seed: int) -> str:
        """Returns the name of the run of a seed."""
        return "".join(c if c.isalnum() else "-" for c in f"{tasks}-{self.label}-{seed}")[-60:].strip("-")


class Cell(NamedTuple):
    """Results of one arm: by seed and task, whether it passed and the turns that it took."""

    passed: dict[tuple[int, str], float]
    turns: dict[tuple[int, str], float]
    said: dict[tuple[int, str], float]


def claims_done(done: FinishedTry) -> bool:
    """Takes the agent's own word: its last act was to submit."""
    return bool(done.steps) and done.steps[-1].tool_calls[0].name == "submit"


def nearly_there(done: FinishedTry) -> bool:
    """Reads the distance in the last observation: at the goal, or one step before it."""
    text = done.steps[-1].observations[0].content if done.steps else "goal 9"
    return sum(int(word) for word in text.split() if word.isdigit()) <= 1


def plausible(done: FinishedTry) -> float:
    """Scores by the distance in the last observation, to which up to 3 steps are added at random for each try."""
    text = done.steps[-1].observations[0].content if done.steps else "goal 9"
    distance = sum(int(word) for word in text.split() if word.isdigit())
    noise = random.Random("/".join(step.observations[0].content for step in done.steps)).uniform(0, 3)
    return 1 / (1 + distance + noise)


def _judge(name: str) -> dict[str, Any]:
    return {"judge": f"{Path(__file__).resolve()}:{name}"}


def _arms(agent: str, more: dict[str, Any]) -> list[Arm]:
    verdict, claim = {"judge": "verdict"}, _judge("claims_done")
    return [
        Arm("the agent", agent, more),
        Arm("best of 2, verdict", f"best-of:2:{agent}", more | verdict),
        Arm("best of 4, verdict", f"best-of:4:{agent}", more | verdict),
        Arm("retry up to 4, verdict", f"retry:4:{agent}", more | verdict),
        Arm("retry up to 4, its word", f"retry:4:{agent}", more | claim),
        Arm("vote of 4", f"vote:4:{agent}", more),
        Arm("vote of 8", f"vote:8:{agent}", more),
    ]


async def run_arm(arm: Arm, tasks: str, seeds: Sequence[int], settings: Settings, **fields: Any) -> Cell:
    """Makes the runs of an arm, one a seed; a run that is there is read."""
    cell = Cell({}, {}, {})
    for seed in seeds:
        name = arm.run_name(tasks, seed)
        agent: dict[str, Any] = {"agent": arm.agent, "agent_options": arm.options}
        limits = Limits(turns=arm.max_turns)
        config = RunConfig(tasks=(tasks,), run=name, seed=seed, limits=limits, **agent, **fields)
        rows = await complete_run(config, settings)
        with RunStore.open(settings.store, name) as store:
            for row in rows:
                _add(cell, seed, row, store)
    return cell


def _add(cell: Cell, seed: int, row: AttemptRow, store: RunStore) -> None:
    key = (seed, row.task)
    cell.passed[key] = float(row.outcome == "pass")
    cell.turns[key] = row.metrics.get("turns", float(row.steps))
    for item in store.trajectory(row.chain).evidence:
        if item.kind == "pick" and item.data["judge"] is not None:
            said = [one["score"] for one in item.data["tries"] if one["branch"] == item.data["picked"]]
            if said:  # none where the attempt was stopped within its first try
                cell.said[key] = float(said[-1])


def make_table(arms: Sequence[tuple[Arm, Cell]]) -> Table:
    """Returns the table of success and cost; the first arm is the base."""
    rows, base = [], arms[0][1]
    for arm, cell in arms:
        gain = gain_cells(cell.passed, base.passed)
        rows.append([arm.label, f"{fmean(cell.passed.values()):.3f}", *gain, f"{fmean(cell.turns.values()):.1f}"])
    return Table(["arm", "passed", "gain over the agent [95%]", "by seed", "turns"], rows)


async def _worlds(settings: Settings, seeds: Sequence[int]) -> dict[str, Table]:
    tables = {}
    for family, noise in NOISY.items():
        tasks = f"family:{family},n={TASKS},seed=11"
        arms = _arms("expert", {"noise": noise})
        tables[family] = make_table([(arm, await run_arm(arm, tasks, seeds, settings)) for arm in arms])
    return tables


async def _overfit(settings: Settings, seeds: Sequence[int]) -> dict[str, Table]:
    rows = []
    for tries in (1, 2, 4, 8, 16):
        arm = Arm(f"best of {tries}", f"best-of:{tries}:random-world", _judge("nearly_there"))
        cell = await run_arm(arm, f"family:grid,n={TASKS},size=4,seed=11", seeds, settings)
        gaps = {key: cell.said[key] - cell.passed[key] for key in cell.passed}
        said, passed = fmean(cell.said.values()), fmean(cell.passed.values())
        rows.append([str(tries), f"{said:.3f}", f"{passed:.3f}", mean_cell(list(task_means(gaps).values()))])
    return {"tries": Table(["tries", "judge says", "verified", "gap [95%]"], rows)}


async def _hybrid(settings: Settings, seeds: Sequence[int]) -> dict[str, Table]:
    tasks = f"family:grid,size=4,n={TASKS},seed=11"
    near, fine = (f"{Path(__file__).resolve()}:{name}" for name in ("nearly_there", "plausible"))
    arms = (
        Arm("the agent", "random-world", {}),
        Arm("best of 8, near", "best-of:8:random-world", {"judge": near}),
        Arm("best of 8, noisy", "best-of:8:random-world", {"judge": fine}),
        Arm("best of 8, both", "best-of:8:random-world", {"judge": near, "screen": fine}),
        Arm("best of 8, verdict", "best-of:8:random-world", {"judge": "verdict"}),
    )
    return {"arms": make_table([(arm, await run_arm(arm, tasks, seeds, settings)) for arm in arms])}


PARTS = {"worlds": _worlds, "overfit": _overfit, "hybrid": _hybrid}


def main() -> None:
    """Runs one part."""
    given = make_parser(__doc__, list(PARTS), SEEDS).parse_args()
    plan = f"{__doc__}\n{TASKS} tasks of each family."
    recording = open_recording(f"tries-{given.part}", f"combinators {given.part}", given, plan, SEEDS)
    with open_store(given.store) as settings:
        recording.write(asyncio.run(PARTS[given.part](settings, recording.seeds)))


if __name__ == "__main__":
    main()
