"""How far two attempts at one task went apart, as numbers: in their plan, in their calls, and in the states between.

Each number is 1 - LCS / longest (`lcs_ratio`): 0 for equal sequences, 1 where they have nothing in common. An attempt
may diverge and come to the same verdict, or the other way round: divergence is told apart from correctness.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from statistics import fmean

import msgspec

from assay.records import Step, canonical_bytes

from .alignment import lcs_ratio


class Divergence(msgspec.Struct, frozen=True):
    """Divergence of two attempts, or its mean over several pairs; each number is in [0, 1]."""

    plan: float
    """Of the names of the tools that were called."""
    calls: float
    """Of the calls: names with arguments."""
    states: float | None
    """Of the states that the environment went through; None if those of an attempt were not observed."""


def diverge(left: Sequence[Step], right: Sequence[Step]) -> Divergence:
    """Returns how far two attempts went apart, from their steps."""
    one, two = _calls(left), _calls(right)
    seen, also_seen = _states(left), _states(right)
    names = [name for name, _ in one], [name for name, _ in two]
    states = _distance(seen, also_seen) if seen and also_seen else None
    return Divergence(_distance(*names), _distance(one, two), states)


def mean_divergence(found: Iterable[Divergence]) -> Divergence | None:
    """Returns the mean of each number over the pairs that have it; None without a pair."""
    pairs = list(found)
    if not pairs:
        return None
    states = [one.states for one in pairs if one.states is not None]
    return Divergence(
        fmean(one.plan for one in pairs), fmean(one.calls for one in pairs), fmean(states) if states else None
    )


def _distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    return 1 - lcs_ratio(left, right)


def _calls(steps: Sequence[Step]) -> list[tuple[str, bytes]]:
    return [
        (
            call.name,
            call.arguments.encode("utf-8", "surrogatepass") if call.parsed is None else canonical_bytes(call.parsed),
        )
        for step in steps
        if step.actor == "agent"
        for call in step.tool_calls
    ]


def _states(steps: Sequence[Step]) -> list[str]:
    """Returns the states after the agent's steps, without repetitions in a row."""
    observed = [step.state for step in steps if step.actor == "agent" and step.state is not None]
    return [state for state, _ in groupby(observed)]
