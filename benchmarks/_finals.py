"""The finals of a run without what differs between two runs of one seed: times, and numbers of seconds in texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from assay.records import Trajectory
from assay.store import RunStore

__all__ = ["differences", "finals_of"]

_SECONDS = re.compile(r"\b\d+\.\d+ ?s\b")


def finals_of(root: Path, run: str) -> dict[str, Any]:
    """Returns task, outcome, steps and verdicts of each attempt that is decided, by the name of the attempt."""
    with RunStore.open(root, run) as store:
        rows = [row for row in store.attempts() if row.final]
        if len({row.attempt for row in rows}) != len(rows):
            raise AssertionError(f"run {run}: an attempt is decided twice")
        return {row.attempt: (row.task, row.outcome, *_facts(store.trajectory(row.chain))) for row in rows}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Returns the attempts that are not in both, or not alike."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _facts(trajectory: Trajectory) -> tuple[Any, Any]:
    steps = [
        (
            step.actor,
            _plain(step.message),
            [(call.name, str(call.arguments)) for call in step.tool_calls],
            [(seen.exit_code, _plain(seen.content)) for seen in step.observations],
            step.state,
        )
        for step in trajectory.steps
    ]
    return steps, [(one.check, one.status, one.score, one.separation) for one in trajectory.verdicts]


def _plain(content: Any) -> str:
    return _SECONDS.sub("# s", str(content))
