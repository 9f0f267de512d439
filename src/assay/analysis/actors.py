"""Actor names in multi-agent runs.

Actors of a team are named by the runner. Imported records name their actors themselves; for programs that use the
gateway, the name is their client's own unverified claim.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.records import Step, Trajectory

_NAMES = ("name", "agent", "agent_name")


def named_calls(trajectory: Trajectory) -> dict[str, str]:
    """Maps model calls by sub-agents to the client's agent name."""
    return {call.id: call.lineage["agent"] for call in trajectory.calls if call.lineage.get("agent")}


def who(step: Step, named: Mapping[str, str] | None = None) -> str:
    """Returns the actor's name: that of a team's actor, which the runner knows; else the recorded one
    (`Step.extra["name"]`, or that of its model call in `named`), else the actor's kind."""
    if step.actor_name is not None:
        return step.actor_name
    for key in _NAMES:
        found = step.extra.get(key)
        if isinstance(found, str) and found:
            return found
    return (named or {}).get(step.call or "", step.actor)
