"""Assay itself: the tool loop, the scripted model, an in-process world whose state is digested after every turn.

Everything that a real run records is recorded: each request and reply, each step with its state, the facts of the
final state, the verdict, all in the hash chain and committed to the store at every model call.
"""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

from episode import INSTRUCTION, SAID, SYSTEM, TURNS, given, measure

from assay import __version__
from assay.environments.interface import ToolSpec
from assay.records import Check, EnvironmentSpec, Observation, Task, digest_record
from assay.rollout import PlannedAttempt, RunConfig, Tally, TrialResult, start_run
from assay.settings import Settings
from assay.store import RunStore, verify_links
from assay.tasks import LoadedTask

SCHEMA = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}


class Counter:
    """A number that `add` moves."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        self.value = 0

    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("add", "Adds to the counter.", SCHEMA),)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        self.value += arguments["by"]
        return Observation(str(self.value))

    async def digest(self) -> str:
        return digest_record(self.value)

    def facts(self) -> dict[str, Any]:
        return {"value": self.value}

    async def close(self) -> None:
        return None


class Watched(Tally):
    """Notes the memory held after a quarter of the attempts and after all."""

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        if self.done in {max(1, self.total // 4), self.total}:
            name = "held_mib_at_end" if self.done == self.total else "held_mib_at_quarter"
            MORE[name] = held_mib()


MORE: dict[str, float] = {}


def held_mib() -> float:
    """Memory held now, not at its peak."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


def replies() -> list[dict[str, Any]]:
    """Ten turns of the model; with the last it says that it is done."""
    add = {"name": "add", "arguments": {"by": 1}}
    finish = {"name": "finish", "arguments": {"message": "the counter stands at ten"}}
    return [{"content": SAID, "tool_calls": [add, finish] if n == TURNS - 1 else [add]} for n in range(TURNS)]


def run(attempts: int, folder: Path) -> int:
    """One run, then a look at what was recorded."""
    folder.mkdir(parents=True)
    script = folder.parent / f"{folder.name}.json"
    script.write_text(json.dumps(replies()))
    config = RunConfig(
        tasks=("-",),
        agent="loop",
        agent_options={"system": SYSTEM},
        model=f"scripted:{script}",
        attempts=attempts,
        concurrency=given().at_once,
        run="overhead",
    )
    task = Task(
        id="count",
        instruction=INSTRUCTION,
        environment=EnvironmentSpec("__main__:Counter", {}),
        checks=(Check("ten", "facts", {"expected": {"value": TURNS}}),),
        digest=digest_record("count"),
    )
    settings = Settings(cache=folder, store=folder)
    tally = Watched()
    asyncio.run(start_run(config, settings, tally, tasks=[LoadedTask(task, None)]))
    if tally.outcomes["pass"] != attempts:
        raise SystemExit(f"{tally.outcomes}: every attempt should have passed")
    return _turns(folder)


def _turns(folder: Path) -> int:
    """Steps on record; the first chain is recomputed, to be sure that there is one."""
    with RunStore.open(folder, "overhead") as store:
        chains = [chain for (chain,) in store.live.connection.execute("SELECT chain FROM attempts")]
        rows = filter(None, map(store.row, chains))  # one at a time: a list of all would be the peak of memory
        first = next(rows)
        if verify_links(store.links(first.chain), first.head) is not None:
            raise SystemExit("the chain does not hold")
        return first.steps + sum(row.steps for row in rows)


if __name__ == "__main__":
    measure(f"assay {__version__}", run, MORE)
