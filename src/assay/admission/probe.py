"""A probe is one attempt of a verifier's battery; a skipped probe records why it was not made."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from assay.agents.interface import Agent
from assay.rollout.attempt.variation import Variation
from assay.rollout.plan import Verification

from .rewrites import Rewrite

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
    """Verdict of a sound verifier; None where the probe only measures."""
    agent: Agent
    about: str
    """Description that completes a sentence."""
    verification: Verification = "default"
    variation: Variation = Variation()
    rewrite: Rewrite | None = None
    circumstance: str | None = None
    members: tuple[Probe, ...] = ()
    """Probes that this attempt may replace; see `bundles`."""
    cleared_by: Clearing = "verdict"
    """Condition that clears the members: the wanted verdict, or also an unchanged final state."""

    @property
    def id(self) -> str:
        """Identifier, unique in the task."""
        return self.name if self.verification == "default" else f"{self.name}.as-asked"


class SkippedProbe(msgspec.Struct, frozen=True):
    """A probe that was not tried, with the reason."""

    probe: str
    group: Group
    reason: str
