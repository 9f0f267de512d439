"""Facts of a turn beside its tokens: state before it, reward, progress, failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.records import Step, Trajectory
from assay.verdicts import is_imported_record

from .rows import TrainingRow


class _StepReward(NamedTuple):
    reward: float
    progress: float | None
    error: bool


class TurnFacts:
    """Facts of one attempt's turns, as fields of `TurnSpan`."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._by_call = {step.call: step for step in reversed(trajectory.steps) if step.call is not None}
        self._by_index = {step.index: step for step in trajectory.steps}
        self._paid = _step_rewards(trajectory)
        self._before: dict[int, str] = {}
        state: str | None = initial_state(trajectory)
        for step in trajectory.steps:
            if state is not None:
                self._before[step.index] = state
            state = step.state

    def of_call(self, call: str) -> dict[str, Any]:
        """Returns the facts of a call's turn; empty if the agent made none of it."""
        return self._of(self._by_call.get(call))

    def of_step(self, index: int | None) -> dict[str, Any]:
        """Returns the facts of a step; empty without one."""
        return self._of(None if index is None else self._by_index.get(index))

    def _of(self, step: Step | None) -> dict[str, Any]:
        if step is None:
            return {}
        step_reward = self._paid.get(step.index, _StepReward(0.0, None, error=False))
        failed = any(call.error for call in step.tool_calls) or any(seen.error for seen in step.observations)
        found = {"step": step.index, "state": self._before.get(step.index), "reward": step_reward.reward}
        return found | {"progress": step_reward.progress, "error": failed or step_reward.error}


def initial_state(trajectory: Trajectory) -> str:
    """Returns a name of the attempt's initial state: its snapshot, or its task."""
    return forked_from(trajectory) or f"beginning of {trajectory.task_digest}"


def forked_from(trajectory: Trajectory) -> str | None:
    """Returns the digest of the recorded state that a fork continues from; None for another attempt."""
    fork = trajectory.started.config.get("fork")
    state = fork.get("state") if isinstance(fork, dict) else None
    return None if state is None else str(state)


def progress_gains(trajectory: Trajectory) -> dict[int, float]:
    """Returns by how much each step raised the environment's report of progress, which starts at 0. A fork starts where
    the steps before it had come, which it does not report: its first report is no gain."""
    found: dict[int, float] = {}
    before = 0.0 if forked_from(trajectory) is None else None
    for step, paid in sorted(_step_rewards(trajectory).items()):
        if paid.progress is not None:
            found[step] = 0.0 if before is None else paid.progress - before
            before = paid.progress
    return found


def set_turn_rewards(rows: Sequence[TrainingRow], by_step: Mapping[int, float]) -> list[TrainingRow]:
    """Returns the rows of an attempt with the rewards of their turns by step; 0 for a step without one."""
    return [
        msgspec.structs.replace(
            row,
            turns=tuple(
                msgspec.structs.replace(turn, reward=0.0 if turn.step is None else by_step.get(turn.step, 0.0))
                for turn in row.turns
            ),
        )
        for row in rows
    ]


def _step_rewards(trajectory: Trajectory) -> dict[int, _StepReward]:
    """Returns the environment's own rewards by step (evidence of kind `episode`)."""
    episode = next((e.data for e in reversed(trajectory.evidence) if e.kind == "episode"), None)
    if is_imported_record(trajectory.started) or episode is None:
        return {}
    found: dict[int, _StepReward] = {}
    columns = (episode.get(name, ()) for name in ("steps", "rewards", "progress", "errors"))
    for step, reward, progress, error in zip(*columns, strict=False):
        before = found.get(step, _StepReward(0.0, None, error=False))
        found[step] = _StepReward(before.reward + reward, progress, error=before.error or bool(error))
    return found
