"""An in-process world, a family of tasks in it, an agent that acts in it, and a run."""

import asyncio
from pathlib import Path
from typing import Any

from assay.agents.interface import Attempt
from assay.environments.interface import ToolSpec
from assay.environments.task_digest import digest_task
from assay.records import Check, EnvironmentSpec, Observation, Task, ToolCall, digest_record
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask

SCHEMA = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}


class CounterWorld:
    """A number that the tool `add` moves."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        self.value = int(parameters["start"])

    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("add", "Adds to the counter.", SCHEMA),)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        if name != "add" or not isinstance(arguments.get("by"), int):
            return Observation("there is one tool: add, with a whole number `by`", error=True)
        self.value += arguments["by"]
        return Observation(str(self.value))

    async def digest(self) -> str:
        return digest_record(self.value)

    def facts(self) -> dict[str, Any]:
        return {"value": self.value}

    async def close(self) -> None:
        return None

    # What `assay admit` asks of a world: a solution, no work that looks like some, and wrong solutions.

    def oracle(self) -> list[ToolCall]:
        return [_add(10 - self.value)]

    def null(self) -> dict[str, list[ToolCall]]:
        return {"add-nothing": [_add(0)]}

    def perturb(self, seed: int) -> dict[str, list[ToolCall]]:
        return {"one-more": [_add(11 - self.value)], "twice": 2 * [_add(10 - self.value)]}


def _add(by: int) -> ToolCall:
    return ToolCall("c0", "add", f'{{"by": {by}}}', {"by": by})


class CounterTasks:
    """Tasks of this world. The same `n` and `seed` give the same tasks."""

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        return tuple(self._task(start=seed + i) for i in range(n))

    def _task(self, start: int) -> Task:
        instruction = "Bring the counter to 10."
        environment = EnvironmentSpec(f"{__file__}:CounterWorld", {"start": start})
        checks = (Check("ten", "facts", {"expected": {"value": 10}}),)
        digest = digest_task(instruction, environment, checks)
        return Task(f"count-from-{start}", instruction, environment, checks, digest)


class AddFive:
    """Adds five, once."""

    name = "add-five"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        (seen,) = await attempt.act([ToolCall("c0", "add", '{"by": 5}', {"by": 5})], message="five more")
        attempt.finish(f"it shows {seen.content}")


if __name__ == "__main__":
    tasks = [LoadedTask(task, None) for task in CounterTasks().tasks(2, seed=4)]
    config = RunConfig(tasks=("generated",), agent=f"{__file__}:AddFive")
    done = asyncio.run(start_run(config, Settings(Path("cache"), Path(".assay")), Tally(), tasks=tasks))
    with RunStore.open(done.store, done.run) as store:
        for row in store.attempts():
            print(row.task, row.outcome, store.trajectory(row.chain).verdicts[0].reason)
