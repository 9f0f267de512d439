"""A run in rounds in a process of its own, to be killed. Usage: python -m tests.rollout.rounds_run STORE POLICY"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from assay.agents.expert import ExpertAgent
from assay.agents.interface import Attempt
from assay.rollout import RunConfig, Tally, resume_run, start_run
from assay.settings import Settings

EASY, HARD = "family:grid,n=6,size=3", "family:grid,n=6,size=5,seed=1"
ATTEMPTS = 6


class SlowExpert(ExpertAgent):
    """Errs often, and waits a moment before each attempt."""

    def __init__(self) -> None:
        super().__init__(noise=0.8)

    async def run(self, attempt: Attempt) -> None:
        await asyncio.sleep(0.01)
        await super().run(attempt)


def config(policy: str, early_stop: float | None = None) -> RunConfig:
    """Twelve tasks of two levels."""
    agent = f"{__file__}:SlowExpert"
    return RunConfig(
        tasks=(EASY, HARD), agent=agent, attempts=ATTEMPTS, allocate=policy, early_stop=early_stop, run=policy
    )


async def main(store: Path, policy: str) -> None:
    settings = Settings(cache=store, store=store)
    if (store / "runs" / policy / "run.sqlite").exists():
        await resume_run(policy, settings, Tally())
        return
    await start_run(config(policy), settings, Tally())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
