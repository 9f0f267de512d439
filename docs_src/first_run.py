import asyncio
from pathlib import Path

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import init_task

init_task(Path("tasks/sum"))  # a task folder to start from: instruction, environment, tests, solution
config = RunConfig(tasks=("tasks",), agent="oracle")
done = asyncio.run(start_run(config, Settings.from_environment(), Tally()))
with RunStore.open(done.store, done.run) as store:
    for row in store.attempts():
        print(row.attempt, row.isolation, row.outcome, store.trajectory(row.chain).verdicts[0].reason)
