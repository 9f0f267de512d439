"""Makes a run, selects from it with a custom stage, and turns failed attempts into training data."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from assay.learning.curation.config import CurateConfig
from assay.learning.curation.curate import curate
from assay.learning.curation.interface import AttemptCandidate, Selection
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings


def few_acts(candidates: Sequence[AttemptCandidate], *, at_most: int = 4) -> list[Selection]:
    """Keeps attempts of at most so many acts."""
    return [Selection(one.acts <= at_most, f"{one.acts} acts, wanted at most {at_most}") for one in candidates]


async def attempts(settings: Settings) -> None:
    """Six small worlds, four times each, by an expert that makes a random move seven times in ten."""
    tasks = ("family:grid,n=6,seed=1,turns=6",)
    asked = RunConfig(tasks=tasks, agent="expert", agent_options={"noise": 0.7}, attempts=4, run="worlds")
    await start_run(asked, settings, Tally())


if __name__ == "__main__":
    settings = Settings(Path("cache"), Path(".assay"))
    asyncio.run(attempts(settings))
    where = ("verdicts", "contrast", f"{Path(__file__)}:few_acts", "diversity:most=2")
    found = curate(CurateConfig(runs=("worlds",), out="selected", where=where), settings)
    for stage, saw, kept in found.stages:
        print(f"{Path(stage).name}: {kept} of {saw}")
    for line in Path("selected/decisions.jsonl").read_text(encoding="utf-8").splitlines()[:5]:
        decision = json.loads(line)
        print(decision["attempt"], "in" if decision["kept"] else "out", "-", decision["why"][-1])
    lost = CurateConfig(runs=("worlds",), out="lessons", where=("verdicts:outcome=fail",), recover="expert", write=())
    print(curate(lost, settings).lessons)
