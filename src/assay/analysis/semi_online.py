"""Scores of semi-online replays: progress and success along a recorded attempt, by the number of patches. Pure.

The score is that of UI-S1 (Advancing GUI Automation via Semi-online Reinforcement Learning), SOP: the mean of the share
of recorded steps that were done and of the share of attempts that did all. Without a patch an attempt ends at its first
divergence, as there. With patches a step that was patched counts as not done. One replay with `K` patches gives the
scores for every smaller number: up to the divergence that would have ended it, it is the same replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from assay.records import AttemptStarted, Trajectory

PREFIX = "semi-online"
MATCHED, PATCHED = "matched", "patched"


def is_on_recorded_pages(started: AttemptStarted) -> bool:
    """Returns whether an attempt is a semi-online replay: the page after an act may be that of another act."""
    return isinstance(started.config.get("semi_online"), dict)


class ReplayedSteps(msgspec.Struct, frozen=True):
    """Facts of one semi-online replay."""

    completed: bool
    steps: int
    outcomes: tuple[str, ...]
    overrun: bool
    """True if the agent went on acting after the last recorded step."""
    patches: int
    """Number of allowed patches."""


class ReplayScore(NamedTuple):
    """Score of one replay under a number of patches."""

    progress: float
    """Share of the recorded steps that the agent did itself before the replay ended."""
    succeeded: bool
    """Returns whether it came to the last recorded step, and stopped there."""

    @property
    def score(self) -> float:
        """Mean of progress and success."""
        return (self.progress + self.succeeded) / 2


def read_replayed_steps(facts: Mapping[str, Any]) -> ReplayedSteps | None:
    """Returns the facts of a semi-online replay; None where they are of something else or do not hold together."""
    try:
        found = msgspec.convert({name: facts.get(name) for name in ReplayedSteps.__struct_fields__}, ReplayedSteps)
    except msgspec.ValidationError:
        return None
    known = all(one in (MATCHED, PATCHED) for one in found.outcomes)
    return found if known and found.steps > 0 and len(found.outcomes) <= found.steps and found.patches >= 0 else None


def replayed_steps_of(trajectory: Trajectory) -> ReplayedSteps | None:
    """Returns the facts of a semi-online replay; None for another attempt."""
    found = (item.data.get("facts") for item in reversed(trajectory.evidence) if item.kind == "facts")
    facts = next((one for one in found if isinstance(one, dict)), None)
    return None if facts is None else read_replayed_steps(facts)


def score_replay(replayed: ReplayedSteps, patches: int) -> ReplayScore:
    """Returns the score if only so many patches had been allowed. Raises `ValueError` for more than there were."""
    if not 0 <= patches <= replayed.patches:
        raise ValueError(f"expected 0 to {replayed.patches} patches, got {patches}")
    done = used = 0
    for outcome in replayed.outcomes:
        used += outcome == PATCHED
        if used > patches:
            return ReplayScore(done / replayed.steps, succeeded=False)
        done += outcome == MATCHED
    at_end = len(replayed.outcomes) == replayed.steps
    return ReplayScore(done / replayed.steps, succeeded=at_end and replayed.completed and not replayed.overrun)
