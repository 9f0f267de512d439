"""A run of two hundred attempts in a process of its own, to be killed. Usage: python -m tests.rollout.long_run STORE"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from assay.agents.interface import Attempt
from assay.rollout import RunConfig, Tally, resume_run, start_run
from assay.settings import Settings
from tests.rollout.counting import counting_task

ATTEMPTS = 200


class Slow:
    """Takes ten steps of a few milliseconds."""

    name = "slow"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        from tests.rollout.agents import add

        for _ in range(10):
            await attempt.act([add(1)])
            await asyncio.sleep(0.004)
        attempt.finish("counted")


async def main(store: Path) -> None:
    tasks = [counting_task(f"count-{n:02}") for n in range(50)]
    settings = Settings(cache=store, store=store)
    if (store / "runs" / "long" / "run.sqlite").exists():
        await resume_run("long", settings, Tally(), tasks=tasks)
        return
    config = RunConfig(tasks=("-",), agent=f"{__file__}:Slow", attempts=ATTEMPTS // 50, concurrency=8, run="long")
    await start_run(config, settings, Tally(), tasks=tasks)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
