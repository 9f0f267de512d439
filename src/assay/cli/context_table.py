"""The table `context` of `assay stats`: what agents cut from their contexts, and whether it was needed later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.analysis.dropped_outputs import DroppedOutputs, cited_outputs, count_dropped
from assay.records import Trajectory
from assay.store import RunStore, final_rows
from assay.verdicts import trust_of


class ContextCut(msgspec.Struct, frozen=True):
    """Outputs that one attempt dropped from its context."""

    agent: str
    model: str | None
    passed: bool
    outputs: DroppedOutputs


def read_context_cuts(root: Path, runs: Sequence[str]) -> tuple[ContextCut, ...]:
    """Returns what each attempt dropped. An output is needed if an attempt of these runs that passed the same task,
    whichever agent made it, cited it later."""
    attempts = [trajectory for run in runs for trajectory in _trajectories(root, run)]
    passed = {id(one): trust_of(one).trusted for one in attempts}
    cited: dict[str, list[dict[str, bool]]] = {}
    for one in attempts:
        if passed[id(one)]:
            cited.setdefault(one.task_digest, []).append(cited_outputs(one))
    return tuple(
        ContextCut(one.agent, one.model, passed[id(one)], count_dropped(one, cited.get(one.task_digest, ())))
        for one in attempts
    )


def _trajectories(root: Path, run: str) -> list[Trajectory]:
    with RunStore.open(root, run) as store:
        return [store.trajectory(row.chain) for row in final_rows(store.attempts())]


def sum_context_cuts(cuts: Sequence[ContextCut]) -> list[dict[str, Any]]:
    """Returns the sums by agent and model, of those that dropped anything."""
    groups: dict[tuple[str, str | None], list[ContextCut]] = {}
    for one in cuts:
        groups.setdefault((one.agent, one.model), []).append(one)
    return [
        {
            "agent": agent,
            "model": model,
            "attempts": len(mine),
            "cut": sum(bool(one.outputs.dropped) for one in mine),
            "passed_cut": sum(one.passed for one in mine if one.outputs.dropped),
            "dropped": sum(one.outputs.dropped for one in mine),
            "known": sum(one.outputs.known for one in mine),
            "needed": sum(one.outputs.needed for one in mine),
        }
        for (agent, model), mine in groups.items()
        if any(one.outputs.dropped for one in mine)
    ]


def context_rows(groups: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns the sums as a table."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "attempts": str(one["attempts"]),
            "context cut": f"{one['cut']}, {one['passed_cut']} passed",
            "outputs dropped": str(one["dropped"]),
            "needed later": f"{one['needed']} of {one['known']} known"
            + (f" ({one['needed'] / one['known']:.0%})" if one["known"] else ""),
        }
        for one in groups
    ]
