"""Do composite tools save calls and keep success? `docs/experiments/composite-tools.md` has the plan and the results.

For each application of the family `services` the rule-driven solver makes attempts at tasks of one seed; composite
tools are mined in its passes and executed again; then it does tasks of another seed, with and without the tools, with
the same draws. A call is what the agent asks for: a composite counts once, whatever it expands to.

    python -m experiments.composite_tools --seed 301 --tasks 24
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from assay.errors import UserError
from assay.learning.skills.composites import MinedSkill, mine_skill
from assay.learning.skills.folder import validate_skill, write_skill
from assay.learning.skills.mining_config import MiningConfig
from assay.learning.trainer.rollouts import complete_run
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally
from assay.settings import Settings
from assay.statistics import format_p_value, sign_flip_test
from assay.store import RunStore, final_rows
from assay.verdicts import trust_of

from ._paired import mean_cell

APPS = ("airline", "bank", "console", "mail", "shop", "tracker")
AGENT = "tests.synthesis.services.solver_agent:SolverAgent"


class Outcome(NamedTuple):
    """One attempt on a held-out task."""

    passed: bool
    calls: int
    """Calls that the agent asked for."""
    made: int
    """Calls that the environment received."""
    stopped: int
    """Composites that stopped before their end."""


def read_outcome(trajectory: Trajectory) -> Outcome:
    """Counts an attempt's calls; a composite is one call of the agent."""
    made = sum(len(step.tool_calls) for step in trajectory.steps if step.actor == "agent")
    composites = [one.data for one in trajectory.evidence if one.kind == "composite_call"]
    asked = made - sum(one["done"] - 1 for one in composites)
    return Outcome(trust_of(trajectory).trusted, asked, made, sum("problem" in one for one in composites))


async def make_run(settings: Settings, run: str, tasks: str, skill: str = "") -> dict[str, Outcome]:
    """Makes one run of the solver and returns the outcome of each task."""
    options = {"skill": skill} if skill else {}
    config = RunConfig(tasks=(tasks,), agent=AGENT, agent_options=options, run=run, concurrency=2)
    await complete_run(config, settings)
    with RunStore.open(settings.store, run) as store:
        return {row.task: read_outcome(store.trajectory(row.chain)) for row in final_rows(store.attempts())}


async def measure_app(settings: Settings, app: str, given: argparse.Namespace) -> list[float]:
    """Prints one application's rows; returns the calls saved at each held-out task."""
    family = f"family:services,app={app},kind=mixed,n={given.tasks}"
    first = await make_run(settings, f"{app}-mined", f"{family},seed={given.seed}")
    config = MiningConfig(runs=(f"{app}-mined",), name=f"{app}-tools", writes=given.writes)
    try:
        mined = await mine_skill(config, settings, Tally())
    except UserError as exc:
        print(f"| {app} | {sum(one.passed for one in first.values())} of {len(first)} | none: {exc} |", flush=True)
        return []
    folder = settings.store / "skills-out" / f"{app}-tools"
    write_skill(mined.skill, folder)
    assert validate_skill(mined.skill) == ()
    held = f"{family},seed={given.seed + 1}"
    plain = await make_run(settings, f"{app}-plain", held)
    composite = await make_run(settings, f"{app}-composite", held, str(folder))
    saved = [float(plain[task].calls - composite[task].calls) for task in plain]
    flips = [composite[task].passed - plain[task].passed for task in plain]
    columns = [
        app,
        f"{sum(one.passed for one in first.values())} of {len(first)}",
        f"{sum(one.is_offered for one in mined.tools)} of {len(mined.tools)}",
        f"{sum(one.passed for one in plain.values())}, {sum(one.passed for one in composite.values())}",
        f"{flips.count(1)}, {flips.count(-1)}",
        f"{np.mean([one.calls for one in plain.values()]):.1f}",
        f"{np.mean([one.calls for one in composite.values()]):.1f}",
        f"{np.mean([one.made for one in composite.values()]):.1f}",
        str(sum(one.stopped for one in composite.values())),
    ]
    print(f"| {' | '.join(columns)} |", flush=True)
    _print_tools(mined)
    return saved


def _print_tools(mined: MinedSkill) -> None:
    for one in mined.tools:
        where = f"{len(one.mined.occurrences)} times at {one.mined.tasks} tasks"
        print(f"    {one.mined.tool.name}: {where}; {one.problem or 'offered'}")


async def main() -> None:
    """Measures every application."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", nargs="+", default=list(APPS))
    parser.add_argument("--seed", type=int, default=301)
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--writes", action="store_true")
    given = parser.parse_args()
    print("| application | mined in | offered | passed: without, with | gained, lost | calls | with | made | stopped |")
    print("|---|---|---|---|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=Path(scratch))
        saved = [one for app in given.apps for one in await measure_app(settings, app, given)]
    p_value = format_p_value(sign_flip_test(saved), digits=4)
    most = max(1.0, max(map(abs, saved)))
    print(f"calls saved a task [95%]: {mean_cell([one / most for one in saved], most, 2)}, one-sided p {p_value}")


if __name__ == "__main__":
    asyncio.run(main())
