"""What is known of a turn beside its tokens: the state before it, what the world gave for it, whether it went wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.records import Step, Trajectory
from assay.verdicts import is_imported_record

__all__ = ["TurnFacts", "beginning"]


class _Paid(NamedTuple):
    """What a world gave for a step."""

    reward: float
    progress: float | None
    error: bool


class TurnFacts:
    """Of one attempt, as fields of `TurnSpan`."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._by_call = {step.call: step for step in reversed(trajectory.steps) if step.call is not None}
        self._by_index = {step.index: step for step in trajectory.steps}
        self._paid = _paid(trajectory)
        self._before: dict[int, str] = {}
        state: str | None = beginning(trajectory)
        for step in trajectory.steps:
            if state is not None:
                self._before[step.index] = state
            state = step.state

    def of_call(self, call: str) -> dict[str, Any]:
        """Of the turn that a call became; empty where the agent made none of it."""
        return self._of(self._by_call.get(call))

    def of_step(self, index: int | None) -> dict[str, Any]:
        """Of the turn of that index; empty where there is none."""
        return self._of(None if index is None else self._by_index.get(index))

    def _of(self, step: Step | None) -> dict[str, Any]:
        if step is None:
            return {}
        paid = self._paid.get(step.index, _Paid(0.0, None, error=False))
        wrong = any(call.error for call in step.tool_calls) or any(seen.error for seen in step.observations)
        found = {"step": step.index, "state": self._before.get(step.index), "reward": paid.reward}
        return found | {"progress": paid.progress, "error": wrong or paid.error}


def beginning(trajectory: Trajectory) -> str:
    """Names the state that an attempt began in: the kept one that it went on from, else that of its task."""
    fork = trajectory.started.config.get("fork")
    state = fork.get("state") if isinstance(fork, dict) else None
    return str(state) if state is not None else f"beginning of {trajectory.task_digest}"


def _paid(trajectory: Trajectory) -> dict[int, _Paid]:
    """What the world itself says of each step (evidence of kind `episode`)."""
    told = next((e.data for e in reversed(trajectory.evidence) if e.kind == "episode"), None)
    if is_imported_record(trajectory.started) or told is None:
        return {}
    found: dict[int, _Paid] = {}
    columns = (told.get(name, ()) for name in ("steps", "rewards", "progress", "errors"))
    for step, reward, progress, error in zip(*columns, strict=False):
        before = found.get(step, _Paid(0.0, None, error=False))
        found[step] = _Paid(before.reward + reward, progress, error=before.error or bool(error))
    return found
