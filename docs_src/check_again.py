"""Re-verifies a stored run, replays its attempts, and finds the decisive step of a failed one."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from counter_world import CounterTasks

from assay.agents.interface import Attempt
from assay.records import ToolCall
from assay.rollout import ReverifyConfig, RunConfig, Tally, reverify, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.counterfactual import decisive_step, rewind
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import load_current_verdicts
from assay.tasks import LoadedTask

SETTINGS = Settings(Path("cache"), Path(".assay"))


def add(by: int) -> ToolCall:
    return ToolCall("c0", "add", f'{{"by": {by}}}', {"by": by})


class AddFours:
    """Adds four, three times: from 4 that is too much."""

    name = "add-fours"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        for _ in range(3):
            await attempt.act([add(4)])
        attempt.finish("added twelve")


class CountUp:
    """Adds one until there are ten; it can take nothing away."""

    name = "count-up"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        (seen,) = await attempt.act([add(0)])
        for _ in range(10 - int(seen.content)):
            await attempt.act([add(1)])


async def main() -> None:
    tasks = [LoadedTask(task, None) for task in CounterTasks().tasks(1, seed=4)]
    config = RunConfig(tasks=("generated",), agent=f"{__file__}:AddFours", run="fours")
    await start_run(config, SETTINGS, Tally(), tasks=tasks)

    judged = await reverify("fours", ReverifyConfig(again=3, allow_task_code=True), SETTINGS)
    print(judged.counts, judged.results[0].reason)
    print([stands.reverified for stands in load_current_verdicts(SETTINGS.store, "fours").values()])

    again = await replay("fours", ReplayConfig(all=True, allow_task_code=True), SETTINGS, Tally())
    print(again.counts, "replay rate", again.rate)

    code_allowed = ReplayConfig(allow_task_code=True)  # the world is Python code beside this file
    outcomes = await rewind("fours:count-from-4@0", CountUp(), SETTINGS, config=code_allowed)
    print([(one.prefix, one.outcome) for one in outcomes], "decisive: step", decisive_step(outcomes, steps=3))


if __name__ == "__main__":
    asyncio.run(main())
