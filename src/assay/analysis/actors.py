"""Who acted, in runs of several agents."""

from __future__ import annotations

from assay.records import Step

__all__ = ["who"]

_NAMES = ("name", "agent", "agent_name")


def who(step: Step) -> str:
    """The actor's own name where the record has one (`Step.extra["name"]`), else its kind."""
    for key in _NAMES:
        found = step.extra.get(key)
        if isinstance(found, str) and found:
            return found
    return step.actor
