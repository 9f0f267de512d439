"""Scores routers on labelled steps: who is asked to act, against the cheapest tier that suffices there.

After the static track of TwinRouterBench, which is catalogued from its abstract alone: labels that executions verified,
and a deterministic score. The measures and their names are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import msgspec

from assay.statistics import Interval, mean_interval


class SufficientTier(NamedTuple):
    """A step and the cheapest tier that suffices there; tiers are numbered from the cheapest, 0."""

    task: str
    tier: int


class RouterScore(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of one router on labelled steps. Costs are means over steps, in the unit of the tiers' costs."""

    router: str
    steps: int
    right: float
    """Share of steps with the cheapest sufficient tier."""
    low: float | None
    """95% interval of the mean over tasks of that share; None for fewer than two tasks."""
    high: float | None
    under: float
    """Share with a cheaper tier, which did not suffice."""
    over: float
    """Share with a dearer tier than needed."""
    cost: float
    """Cost of the chosen tiers."""
    cascade_cost: float
    """Cost if each step that was routed too low is made again by each dearer tier, up to the one that suffices."""
    saved: float
    """Share of the cost of the dearest tier at every step that `cascade_cost` saves; negative where it costs more."""


def cheapest_sufficient(tries: Sequence[tuple[int, int]], need: float) -> int | None:
    """Returns the first tier of which at least the share `need` of the judged tries passed; None without one, and where
    a cheaper tier has no judged try, so that it is unknown.

    Args:
        tries: Passed and judged tries of each tier, from the cheapest.
        need: Above 0, up to 1.
    """
    for tier, (passed, judged) in enumerate(tries):
        if not judged or passed >= need * judged:
            return tier if judged else None
    return None


def score_router(
    name: str, chosen: Sequence[int], labels: Sequence[SufficientTier], costs: Sequence[float]
) -> RouterScore:
    """Returns the score of a router's choices, one for each labelled step.

    Args:
        name: The router.
        chosen: Number of the tier that it chose at each step.
        labels: The steps; at least one.
        costs: Cost of a step by each tier, rising and above 0.
    """
    if not labels or any(one >= other for one, other in pairwise((0.0, *costs))):
        raise ValueError("a score needs labelled steps, and costs that are above 0 and rise from tier to tier")
    pairs = list(zip(chosen, labels, strict=True))
    right_by_task: dict[str, list[float]] = {}
    for tier, label in pairs:
        right_by_task.setdefault(label.task, []).append(float(tier == label.tier))
    interval: Interval | None = mean_interval([fmean(one) for one in right_by_task.values()])
    cascade_cost = fmean(sum(costs[tier : max(tier, label.tier) + 1]) for tier, label in pairs)
    return RouterScore(
        router=name,
        steps=len(pairs),
        right=fmean(tier == label.tier for tier, label in pairs),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        under=fmean(tier < label.tier for tier, label in pairs),
        over=fmean(tier > label.tier for tier, label in pairs),
        cost=fmean(costs[tier] for tier, _ in pairs),
        cascade_cost=cascade_cost,
        saved=1 - cascade_cost / costs[-1],
    )


def score_routers(
    choices: Mapping[str, Sequence[int]], labels: Sequence[SufficientTier], tiers: Mapping[str, float]
) -> list[RouterScore]:
    """Returns the scores of routers, of each tier at every step, and of the labels themselves.

    Args:
        choices: Choices of each router, as in `score_router`.
        labels: The steps; at least one.
        tiers: Cost of a step by name of the tier, rising and above 0.
    """
    costs = list(tiers.values())
    constant = {f"always {name}": [number] * len(labels) for number, name in enumerate(tiers)}
    whole = {**choices, **constant, "the labels": [one.tier for one in labels]}
    return [score_router(name, chosen, labels, costs) for name, chosen in whole.items()]
