"""Trajectories for the tests of this room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from assay.records import AttemptStarted, Observation, Step, ToolCall, Trajectory, Verdict

__all__ = ["call", "step", "trajectory"]


def call(name: str, arguments: dict[str, Any] | str, identifier: str = "c0") -> ToolCall:
    if isinstance(arguments, str):
        return ToolCall(identifier, name, arguments)
    return ToolCall(identifier, name, json.dumps(arguments), arguments)


def step(*calls: ToolCall, seen: Sequence[Observation] = (), index: int = 0, message: str | None = None) -> Step:
    return Step(index, "agent", message=message, tool_calls=calls, observations=tuple(seen))


def trajectory(*steps: Step, attempt: str = "a", verdicts: tuple[Verdict, ...] = ()) -> Trajectory:
    started = AttemptStarted("run", attempt, "task", "", "agent", None, 0, 0)
    ordered = tuple(
        Step(n, s.actor, s.message, s.reasoning, s.tool_calls, s.observations, extra=s.extra)
        for n, s in enumerate(steps)
    )
    return Trajectory(
        run="run", attempt=attempt, chain=attempt, task="task", task_digest="", agent="agent", model=None, seed=0,
        number=0, retry=0, started=started, finished=None, isolation=None, steps=ordered, calls=(), evidence=(),
        verdicts=verdicts, notes=(), head="", length=0, outcome=verdicts[0].status if verdicts else None,
    )  # fmt: skip
