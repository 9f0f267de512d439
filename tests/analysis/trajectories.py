"""Small trajectories, written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from assay.analysis.actions import actions_of
from assay.analysis.subject import Subject
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Observation,
    Step,
    ToolCall,
    Trajectory,
    Verdict,
)


def call(name: str, number: int = 0, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments), arguments)


def acted(index: int, name: str, seen: str | None = "ok", *, error: bool = False, **arguments: Any) -> Step:
    observations = () if seen is None else (Observation(seen, f"c{index}", error=error),)
    return Step(index, "agent", None, None, (call(name, index, **arguments),), observations)


def ran(index: int, command: str, seen: str = "", code: int | None = 0, message: str | None = None) -> Step:
    observation = Observation(seen, f"c{index}", exit_code=code, error=bool(code))
    return Step(index, "agent", message, None, (call("shell", index, command=command),), (observation,))


def said(index: int, message: str, actor: Any = "agent", name: str | None = None) -> Step:
    return Step(index, actor, message, extra={} if name is None else {"name": name})


def trajectory(
    steps: Sequence[Step],
    *,
    evidence: Sequence[Evidence] = (),
    verdicts: Sequence[Verdict] = (),
    ended: bool = True,
    outcome: Any = None,
) -> Trajectory:
    started = AttemptStarted("r", "t@0", "t", "d", "a", None, 0, 0)
    finished = AttemptEnded("done") if ended else None
    return Trajectory(
        "r", "t@0", "t@0.0", "t", "d", "a", None, 0, 0, 0, started, finished, None, tuple(steps), (), tuple(evidence),
        tuple(verdicts), (), "h", 1, outcome,
    )  # fmt: skip


def subject(steps: Sequence[Step], **given: Any) -> Subject:
    made = trajectory(steps, **given)
    return Subject(made, actions_of(made), lambda _: None)
