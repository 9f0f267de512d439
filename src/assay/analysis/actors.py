"""Who acted, in runs of several agents.

An imported record says it in its own words. Of a program that asks through the gateway it is what the program's client
says of itself, which nobody checks: it tells sub-agents apart, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.records import Step, Trajectory

__all__ = ["named_calls", "who"]

_NAMES = ("name", "agent", "agent_name")


def named_calls(trajectory: Trajectory) -> dict[str, str]:
    """Of model calls by sub-agents, the agent that the client named."""
    return {call.id: call.lineage["agent"] for call in trajectory.calls if call.lineage.get("agent")}


def who(step: Step, named: Mapping[str, str] | None = None) -> str:
    """The actor's own name where the record has one (`Step.extra["name"]`, or that of its model call in `named`), else
    its kind."""
    for key in _NAMES:
        found = step.extra.get(key)
        if isinstance(found, str) and found:
            return found
    return (named or {}).get(step.call or "", step.actor)
