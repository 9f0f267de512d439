"""Lets an oracle do three tasks on one site, and writes its key frames with right and swapped instructions."""

import asyncio
import json
from pathlib import Path

from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings

if __name__ == "__main__":
    settings = Settings(Path("cache"), Path(".assay"))
    asked = RunConfig(tasks=("family:sites,site=museum,n=3,seed=3,least=2,most=5",), agent="oracle", run="museum")
    asyncio.run(start_run(asked, settings, Tally()))
    report = export_for_training("museum", WriteConfig(to="swapped-instructions", out="judge"), settings)
    examples = [json.loads(line) for line in Path("judge/examples.jsonl").read_text(encoding="utf-8").splitlines()]
    swapped = [one for one in examples if one["swapped"]]
    pictures = len(list(Path("judge/images").iterdir()))
    print(f"{report.written} examples, {len(swapped)} of them swapped; {pictures} pictures")
    first, other = examples[0], swapped[0]
    for frame in first["frames"]:
        print(
            f"step {frame['step']:2} {frame['act']:14} {frame['title']!r}{' fulfilled' if frame['fulfilled'] else ''}"
        )
    print("by", other["instruction_of"], "- fulfilled:", other["fulfilled"], "- departs at step", other["departs"])
