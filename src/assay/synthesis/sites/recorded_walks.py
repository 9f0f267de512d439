"""Reads recorded attempts in a browser as walks over pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from assay.environments.browser.page_moves import Move, MoveReader
from assay.records import Trajectory, pair_observations


class RecordedWalk(NamedTuple):
    """The moves of one attempt."""

    name: str
    """Run and attempt."""
    start: str
    """Digest of the state in which the services began; empty if it is not recorded."""
    moves: tuple[Move, ...]
    others: Mapping[str, int]
    """Calls that are neither part of a move nor a look at the page, by tool."""


def read_walk(trajectory: Trajectory) -> RecordedWalk:
    """Returns the walk of an attempt; without moves if it was in no browser, or its trees were not recorded whole."""
    reader = MoveReader()
    for step in trajectory.steps:
        if step.actor != "agent":
            continue
        for call, seen in zip(step.tool_calls, pair_observations(step.tool_calls, step.observations), strict=True):
            if call.error is None and seen and not seen[0].error:
                reader.read(call.name, call.parsed or {}, seen[0].content if seen[0].truncated is None else None)
    facts = next((one.data.get("facts") for one in reversed(trajectory.evidence) if one.kind == "facts"), None)
    start = facts.get("initial", "") if isinstance(facts, dict) else ""
    return RecordedWalk(f"{trajectory.run}:{trajectory.attempt}", str(start), tuple(reader.moves), dict(reader.others))
