"""An in-process world to run agents in: a counter that tools move."""

from __future__ import annotations

from typing import Any

from assay.environments.interface import ToolSpec
from assay.records import Check, EnvironmentSpec, Limits, Observation, Task, digest_record
from assay.tasks import LoadedTask

SCHEMA = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}


class CountingWorld:
    """A number that `add` moves; the task is to reach ten."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        self.value = int(parameters.get("start", 0))
        self.seed = seed

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


def counting_task(name: str = "count", *, limits: Limits | None = None, start: int = 0) -> LoadedTask:
    """A task of this world."""
    world = EnvironmentSpec(f"{__file__}:CountingWorld", {"start": start})
    task = Task(
        id=name,
        instruction="Reach ten.",
        environment=world,
        checks=(Check("ten", "facts", {"expected": {"value": 10}}),),
        digest=digest_record([name, start]),
        limits=limits or Limits(),
    )
    return LoadedTask(task, None)
