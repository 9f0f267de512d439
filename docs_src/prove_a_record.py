"""Makes a signed receipt of a run, rewrites the run as a forger would, and shows which check detects it."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent))
from counter_world import CounterTasks

from assay.records import VerdictAdded
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore, audit, check_receipt, make_receipt, new_key, read_receipt, write_receipt
from assay.tasks import LoadedTask

STORE, ELSEWHERE = Path(".assay"), Path("elsewhere")  # in earnest: another machine, a commit, a message


def rewrite() -> None:
    """Turns every verdict into a failure and recomputes every digest."""
    with RunStore.open(STORE, "counted") as store:
        manifest = store.manifest()
        chains = {row.chain: [event.body for event in store.events(row.chain)] for row in store.attempts()}
    shutil.rmtree(STORE / "runs" / "counted")
    with RunStore.create(STORE, "counted", manifest) as store:
        for chain, bodies in chains.items():
            store.append(chain, [forged(body) for body in bodies])


def forged(body: object) -> object:
    if not isinstance(body, VerdictAdded):
        return body
    return VerdictAdded(msgspec.structs.replace(body.verdict, status="fail", score=0.0))


if __name__ == "__main__":
    tasks = [LoadedTask(task, None) for task in CounterTasks().tasks(2, seed=4)]
    agent = str(Path(__file__).with_name("counter_world.py")) + ":AddFive"
    config = RunConfig(tasks=("generated",), agent=agent, run="counted")
    asyncio.run(start_run(config, Settings(Path("cache"), STORE), Tally(), tasks=tasks))

    ELSEWHERE.mkdir()
    public = new_key(ELSEWHERE / "lab.key")
    whole, one = ELSEWHERE / "run.receipt", ELSEWHERE / "attempt.receipt"
    write_receipt(make_receipt(STORE, "counted", key=ELSEWHERE / "lab.key"), whole)
    attempt = tasks[0].task.id + "@0"
    write_receipt(make_receipt(STORE, "counted", key=ELSEWHERE / "lab.key", attempt=attempt, events=True), one)

    checker = Path(__file__).with_name("check_receipt.py")  # needs no Assay
    for path in (whole, one):
        subprocess.run([sys.executable, str(checker), str(path), public], check=True)

    print("before:", check_receipt(STORE, "counted", read_receipt(whole), key=public).problems)
    rewrite()
    print("digests after the rewrite:", audit(STORE, "counted"))
    for problem in check_receipt(STORE, "counted", read_receipt(whole), key=public).problems:
        print("the receipt:", problem)
