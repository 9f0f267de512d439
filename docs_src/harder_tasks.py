"""A set of harder tasks on disk: what it holds, and what attempts read and asked beyond the need."""

import asyncio
from pathlib import Path

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.synthesis import ServiceSetConfig, make_service_set

if __name__ == "__main__":
    asked = ServiceSetConfig(
        apps=("shop", "mail"),
        out="set",
        count=4,
        level="persona",
        mood="hurried",
        disclosure="precise",
        wrong=1,
        days=2,
    )
    report = make_service_set(asked)
    print("over-specification", report.given)
    for knob, values in report.knobs.items():
        print(knob, values)
    config = RunConfig(tasks=("set",), agent="oracle", run="proof")
    done = asyncio.run(start_run(config, Settings(Path("cache"), Path(".assay")), Tally()))
    with RunStore.open(done.store, done.run) as store:
        for row in store.attempts():
            verdicts = {one.check: one for one in store.trajectory(row.chain).verdicts}
            print(row.outcome, "-", verdicts["economy"].reason)
