"""Copies a sealed run to object storage and back, and shows that the copy holds and that a damaged object is named."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from counter_world import CounterTasks

from assay.errors import StoreError
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import audit, check_receipt, make_receipt, query, seal
from assay.store.objects import Publisher, fetch_run, open_place, require_create_only
from assay.tasks import LoadedTask

STORE, COPY = Path(".assay"), Path("copy")
URL = (Path.cwd() / "objects").as_uri()  # in earnest: s3://my-bucket/runs


async def main() -> None:
    tasks = [LoadedTask(task, None) for task in CounterTasks().tasks(2, seed=4)]
    agent = str(Path(__file__).with_name("counter_world.py")) + ":AddFive"
    config = RunConfig(tasks=("generated",), agent=agent, run="counted")
    await start_run(config, Settings(Path("cache"), STORE), Tally(), tasks=tasks)
    seal(STORE, "counted")
    receipt = make_receipt(STORE, "counted")

    place = open_place(URL, create=True)
    await require_create_only(place)  # refuses a store that overwrites
    publisher = Publisher(STORE, place)
    print("sent again:", [(await publisher.publish("counted")).sent > 0, (await publisher.publish("counted")).sent])

    await fetch_run(place, "counted", COPY)
    print("problems of the copy:", audit(COPY, "counted") + check_receipt(COPY, "counted", receipt).problems)
    print("attempts:", query(COPY, "select count(*) from trajectories").rows[0][0])

    (events,) = Path("objects").glob("runs/counted/segments/*/events.parquet")
    events.chmod(0o644)
    events.write_bytes(events.read_bytes()[:-1])
    try:
        await fetch_run(place, "counted", Path("another"))
    except StoreError as exc:
        print("refused:", str(exc).split("objects: ")[-1].replace(events.parent.name, "..."))


if __name__ == "__main__":
    asyncio.run(main())
