"""A probe: one attempt of a verifier's battery, or the reason why it was not made."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from assay.agents.interface import Agent
from assay.rollout.attempt.variation import Variation
from assay.rollout.plan import Verification

from .rewrites import Rewrite

__all__ = ["GROUPS", "Clearing", "Group", "Probe", "SkippedProbe"]

Clearing = Literal["verdict", "no change"]
Group = Literal["completeness", "null", "cheat", "sensitivity", "strictness", "review"]
GROUPS: dict[str, str] = {
    "completeness": "the reference solution passes, also under other circumstances",
    "null": "no work fails",
    "cheat": "no cheat gets through",
    "sensitivity": "changed solutions are rejected",
    "strictness": "solutions that mean the same are accepted",
}


class Probe(NamedTuple):
    """One attempt of the battery."""

    name: str
    group: Group
    wanted: Literal["pass", "fail"] | None
    """What a sound verifier says; None is only measured."""
    agent: Agent
    about: str
    """What is tried, in words that complete a sentence."""
    verification: Verification = "default"
    variation: Variation = Variation()
    rewrite: Rewrite | None = None
    circumstance: str | None = None
    members: tuple[Probe, ...] = ()
    """Probes that this one's attempt may make unnecessary; see `bundles`."""
    cleared_by: Clearing = "verdict"
    """What makes them unnecessary: the wanted verdict, or that verdict on a final state in which no file changed."""

    @property
    def id(self) -> str:
        """Unique in the task."""
        return self.name if self.verification == "default" else f"{self.name}.as-asked"


class SkippedProbe(msgspec.Struct, frozen=True):
    """Something that was not tried."""

    probe: str
    group: Group
    reason: str
