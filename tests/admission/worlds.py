"""Counters that know their own solution, for admissions of in-process worlds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.records import Check, EnvironmentSpec, Task, ToolCall, digest_record
from assay.tasks import LoadedTask
from tests.rollout.agents import add
from tests.rollout.counting import CountingWorld

__all__ = ["Bare", "Whole", "world_task"]


class Bare(CountingWorld):
    """Gives nothing but itself."""


class Whole(CountingWorld):
    """Gives every hook. Its seed is where it starts."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        super().__init__({"start": seed}, seed)
        self.noise = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.noise += arguments["by"] == 0
        return await super().call(name, arguments)

    def oracle(self) -> tuple[ToolCall, ...]:
        return (add(10 - self.value),)

    def null(self) -> Mapping[str, tuple[ToolCall, ...]]:
        return {"add-zero": (add(0),)}

    def perturb(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        return {"one-less": (add(9 - self.value),), "in-two": (add(4), add(6 - self.value)), "noisy": (add(0), add(10))}

    def collect(self) -> dict[str, Any]:
        return {"value": self.value, "noise": self.noise}


def world_task(kind: type[CountingWorld], expected: Any = 10, name: str = "world") -> LoadedTask:
    """A task whose check wants this value; None is a careless check that any world passes."""
    facts = {"expected": {"value": expected}}
    spec = EnvironmentSpec(f"{__file__}:{kind.__name__}", {}, 0)
    task = Task(name, "Reach ten.", spec, (Check("ten", "facts", facts),), digest_record([kind.__name__, expected]))
    return LoadedTask(task, None)
