"""Weights of a team's actors by rank consistency: does an actor do well where the team does?

Source: CoMAM, catalogued from its abstract alone, which weighs an actor by how consistently a group is ranked by its
local and by the global reward. The formula is ours. Over the judged attempts of a group, with the local rewards l_a of
actor a and the team's outcomes r:

    c_a = (1 + tau_b(l_a, r)) / 2,    w_a = K c_a / (c_1 + ... + c_K)

K is the number of actors, so that weights are 1 on average. tau_b is Kendall's, which accounts for ties; where it is
undefined (a group of one, or equal rewards throughout) it counts as 0. Where all c_a are 0, all weights are 1. The
advantages of an actor's turns in the group are multiplied by its weight, whatever method made them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from assay.learning.rows import TrainingRow

from .interface import Floats

Attempt = tuple[str, str]
"""Run and chain."""


class ActorWeight(NamedTuple):
    """Weight of one actor in one group."""

    tau: float | None
    """Agreement of the two rankings; None where it is undefined."""
    weight: float


def kendall_tau_b(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Returns Kendall's tau-b of two rankings, in [-1, 1]; None where one of them has no two different values.

    (C - D) / sqrt((n0 - n1) (n0 - n2)), with C concordant and D discordant pairs of n0 = n (n - 1) / 2, of which n1 and
    n2 are tied in one ranking. Kendall, "The treatment of ties in ranking problems", 1945. Time O(n^2), memory O(n).
    """
    left, right = (np.asarray(side, dtype=np.float64) for side in (one, other))
    if left.shape != right.shape or left.ndim != 1 or not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError("two rankings have the same number of values, all finite")
    balance = untied_left = untied_right = 0
    for at in range(len(left) - 1):
        signs, others = (np.sign(side[at + 1 :] - side[at]) for side in (left, right))
        balance += int(signs @ others)
        untied_left += int(np.count_nonzero(signs))
        untied_right += int(np.count_nonzero(others))
    if not untied_left or not untied_right:
        return None
    return max(-1.0, min(1.0, balance / math.sqrt(untied_left * untied_right)))


def rank_consistency_weights(local: Mapping[str, Sequence[float]], outcome: Sequence[float]) -> dict[str, ActorWeight]:
    """Returns the weight of each actor of a group.

    Args:
        local: Local rewards of each actor, one for each attempt of the group.
        outcome: The team's reward in each attempt.
    """
    taus = {actor: kendall_tau_b(rewards, outcome) for actor, rewards in local.items()}
    consistency = {actor: (1 + (tau or 0.0)) / 2 for actor, tau in taus.items()}
    total = math.fsum(consistency.values())
    return {
        actor: ActorWeight(taus[actor], len(taus) * one / total if total > 0 else 1.0)
        for actor, one in consistency.items()
    }


def weights_of_rows(
    rows: Sequence[TrainingRow], outcomes: Mapping[Attempt, float], dishonest: Container[Attempt] = ()
) -> dict[tuple[str, str], ActorWeight]:
    """Returns the weights by group and actor, from the rewards of the trained turns of the actors.

    Args:
        rows: Of any attempts; those without an actor have no weight.
        outcomes: Rewards of the attempts that count; others are in no ranking, and an actor without one has no weight.
        dishonest: Those of them whose integrity failed: of the rewards of their turns only losses count.
    """
    local: dict[str, dict[str, dict[Attempt, float]]] = {}
    attempts: dict[str, dict[Attempt, None]] = {}
    for row in rows:
        key = (row.run, row.chain)
        if row.actor is None or key not in outcomes:
            continue
        attempts.setdefault(row.group, {})[key] = None
        of_group = local.setdefault(row.group, {}).setdefault(row.actor, {})
        rewards = [turn.reward for turn in row.turns if turn.trained]
        earned = [min(reward, 0.0) for reward in rewards] if key in dishonest else rewards
        of_group[key] = of_group.get(key, 0.0) + math.fsum(earned)
    found = {}
    for group, actors in local.items():
        counted = list(attempts[group])
        columns = {actor: [rewards.get(key, 0.0) for key in counted] for actor, rewards in actors.items()}
        for actor, weight in rank_consistency_weights(columns, [outcomes[key] for key in counted]).items():
            found[group, actor] = weight
    return found


def describe_weights(weights: Mapping[tuple[str, str], ActorWeight]) -> list[str]:
    """Returns a line for each actor: the means of its weight and of its tau over groups, of tau where it is defined."""
    by_actor: dict[str, list[ActorWeight]] = {}
    for (_, actor), one in weights.items():
        by_actor.setdefault(actor, []).append(one)
    return [
        f"{actor}: {fmean(one.weight for one in several):.3f}, mean over {len(several)}; {_describe_taus(several)}"
        for actor, several in sorted(by_actor.items())
    ]


def _describe_taus(several: Sequence[ActorWeight]) -> str:
    taus = [one.tau for one in several if one.tau is not None]
    return f"tau {fmean(taus):+.3f} in {len(taus)} of them" if taus else "tau undefined in all of them"


def multiply_by_weight(
    advantage: Floats, actors: Sequence[tuple[str, str | None]], weights: Mapping[tuple[str, str], ActorWeight]
) -> Floats:
    """Returns the advantages [T] times the weight of each turn's group and actor; a turn without an actor, or of an
    actor without a weight, keeps its own."""
    found = [None if actor is None else weights.get((group, actor)) for group, actor in actors]
    factors = [1.0 if one is None else one.weight for one in found]
    return advantage * np.asarray(factors, dtype=np.float64)
