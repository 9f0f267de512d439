"""Seals a run, checks every digest, queries it in SQL, and opens its Parquet files without Assay."""

import asyncio
import sys
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
from counter_world import CounterTasks

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import audit, query, seal
from assay.tasks import LoadedTask

STORE = Path(".assay")

if __name__ == "__main__":
    tasks = [LoadedTask(task, None) for task in CounterTasks().tasks(2, seed=4)]
    agent = str(Path(__file__).with_name("counter_world.py")) + ":AddFive"
    config = RunConfig(tasks=("generated",), agent=agent, run="counted")
    asyncio.run(start_run(config, Settings(Path("cache"), STORE), Tally(), tasks=tasks))
    report = seal(STORE, "counted")
    print("keep this elsewhere:", report.head)
    print("problems:", audit(STORE, "counted"))
    print(query(STORE, "select task, outcome from trajectories order by task").rows)
    table = pq.read_table(STORE / "runs/counted/sealed/verdicts.parquet", columns=["status", "reason"])
    print(table.to_pylist())
