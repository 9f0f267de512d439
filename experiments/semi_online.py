"""Does a semi-online replay predict success on the live site? `docs/experiments/semi-online.md` has the results.

Sites of state machines in a real Chromium. Each agent makes attempts on the live sites, and replays of the oracle's
recorded attempts at the same tasks, without the sites. The tables are those of `assay stats --table semi-online` and
`--table agreement`. Runs that are in the store already are used as they are.

    python -m experiments.semi_online --store FOLDER
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from assay.learning.trainer.rollouts import complete_run
from assay.records import Limits
from assay.rollout import RunConfig, Tally
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.semi_online import replay_semi_online
from assay.settings import Settings

from ._running import make_parser, open_store

TASKS = "family:sites,n=20,least=4,most=8,seed={seed}"
LIVE_ATTEMPTS, REPLAYS, PATCHES = 1, 3, 4
TURNS = 100


class Arm(NamedTuple):
    """An agent with its options."""

    agent: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of its runs."""
        return "-".join([self.agent, *(f"{key}{value}" for key, value in self.options.items())]).replace(".", "")


ARMS = (
    *(Arm("expert", {"noise": noise}) for noise in (0.0, 0.05, 0.1, 0.2, 0.35, 0.5)),
    *(Arm("page-planner", {"acts": acts}) for acts in (8, 16, 32)),
    Arm("page-walker", {"acts": 15}),
    Arm("random-world", {"steps": 40}),
)


async def run_arm(arm: Arm, seed: int, settings: Settings) -> tuple[str, ...]:
    """Makes the live run and the replays of an agent, and returns their names."""
    live = f"live-{seed}-{arm.name}"
    config = RunConfig(
        tasks=(TASKS.format(seed=seed),),
        agent=arm.agent,
        agent_options=arm.options,
        run=live,
        seed=seed,
        attempts=LIVE_ATTEMPTS,
        limits=Limits(turns=TURNS),
    )
    await complete_run(config, settings)
    replay = ReplayConfig(
        all=True,
        semi_online=True,
        agent=arm.agent,
        agent_options=arm.options,
        patches=PATCHES,
        times=REPLAYS,
    )
    report = await replay_semi_online(f"oracle-{seed}", replay, settings, Tally())
    return live, report.replay


async def run_seed(seed: int, settings: Settings) -> list[str]:
    """Returns the runs of all agents."""
    oracle, found = f"oracle-{seed}", list[str]()
    config = RunConfig(tasks=(TASKS.format(seed=seed),), agent="oracle", run=oracle, seed=seed, limits=Limits())
    await complete_run(config, settings)
    for arm in ARMS:
        found += await run_arm(arm, seed, settings)
    return found


def main() -> None:
    """Makes all runs and prints the command that shows the tables."""
    parser = make_parser(__doc__, seeds=(11,), record=False)
    given = parser.parse_args()
    if given.store is None:
        parser.error("--store is where `assay stats` reads the runs")
    with open_store(given.store) as settings:
        runs = [run for seed in given.seeds for run in asyncio.run(run_seed(seed, settings))]
    print(f"assay stats {' '.join(runs)} --store {given.store} --table semi-online --table agreement")


if __name__ == "__main__":
    main()
