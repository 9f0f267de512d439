"""Lets an expert play a small world, and writes its plain passes for two trainers' files."""

import asyncio
import json
from pathlib import Path

from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings


async def attempts(settings: Settings) -> None:
    """Four small worlds, three times each, by an expert that makes a random move seven times in ten."""
    asked = RunConfig(
        tasks=("family:grid,n=4,seed=1,turns=6",),
        agent="expert",
        agent_options={"noise": 0.7},
        attempts=3,
        run="worlds",
    )
    await start_run(asked, settings, Tally())


if __name__ == "__main__":
    settings = Settings(Path("cache"), Path(".assay"))
    asyncio.run(attempts(settings))
    for name in ("openai", "openai-dpo", "hf-dataset"):
        report = export_for_training("worlds", WriteConfig(to=name, out=f"{name}.out"), settings)
        print(f"{name}: {report.written} examples; left out or not held: {sum(report.losses.values())}")
    first = json.loads(Path("openai.out").read_text(encoding="utf-8").splitlines()[0])
    print([message["role"] for message in first["messages"]][:4])
    for line in Path("hf-dataset.out/README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| pass") or line.startswith("| fail"):
            print(line)
