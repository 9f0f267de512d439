"""Judges what the pages of an attempt asked of a site, by an evaluator of network events of WebArena-Verified."""

import asyncio
from pathlib import Path

import msgspec

from assay.records import Check
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.synthesis.services.family import ServiceTasks

if __name__ == "__main__":
    (task,) = ServiceTasks(app="shop", interface="pages", level="explicit", writes=1).tasks(1, seed=3)
    action = task.environment.parameters["plan"][-1]["action"]
    sent = {"url": f"__SHOP__/shop/{action}", "http_method": "POST", "response_status": 303}
    evaluator = {"evaluator": "NetworkEventEvaluator", "expected": sent}
    parameters = {"evaluators": [evaluator], "sites": {"__SHOP__": ["http://shop.test"]}}
    judged = msgspec.structs.replace(task, checks=(*task.checks, Check("requests", "network", parameters)))
    Path("judged.jsonl").write_bytes(msgspec.json.encode(judged) + b"\n")
    for agent in ("oracle", "null"):
        config = RunConfig(tasks=("family:written,path=judged.jsonl,n=1",), agent=agent, run=agent)
        done = asyncio.run(start_run(config, Settings(Path("cache"), Path(".assay")), Tally()))
        with RunStore.open(done.store, done.run) as store:
            for row in store.attempts():
                verdicts = {one.check: one for one in store.trajectory(row.chain).verdicts}
                print(agent, row.outcome, "-", verdicts["requests"].status, verdicts["requests"].reason)
