"""GiGPO: the attempt against its group, plus each turn against the turns taken from the same state.

Source: arXiv 2505.10978; details of the released code (verl-agent) where the paper leaves them open. Two parts:

    A_t = E_i + weight * S_t
    E_i = r_i - m, over the attempts of the group      (divided by deviation + epsilon where `normalise="deviation"`)
    S_t = G_t - mean of G over the anchor group of t   (likewise),  G_t = e_t + discount * G_{t+1}

The anchor group of a turn is all turns of its group that began in the same environment state, identified by the state's
digest (in their code by the observation's text). A turn with an unknown state, or alone in its anchor group, has S = 0.

Two differences, ours: `weigh="attempts"` forms the mean of E over attempts, where the released code forms it over turns
(`weigh="turns"`), so that long attempts count more; and a group of one has E = 0, where theirs keeps the raw reward.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._groups import credit_turns, deviation, discounted, group_codes, mean, pair_codes, require_column, rewards
from .interface import Batch, Credit, Floats, Ints

Normalise = Literal["none", "deviation"]
EPSILON = 1e-6


def gigpo(
    batch: Batch,
    *,
    weight: float = 1.0,
    discount: float = 0.95,
    normalise: Normalise = "none",
    weigh: Literal["attempts", "turns"] = "attempts",
) -> Credit:
    """Credit [T].

    Args:
        batch: Needs rewards and states.
        weight: Of the part by turn.
        discount: By turn, in [0, 1].
        normalise: Whether both parts are divided by their deviations.
        weigh: Over what the group's mean is formed.
    """
    reward = require_column(batch, "reward")
    if weigh == "turns":
        group, count = group_codes(batch.group[batch.attempt])
        episode = _relative(reward[batch.attempt], group, count, normalise)
        alone = np.bincount(group_codes(batch.group)[0])[group_codes(batch.group)[0]] == 1
        episode[alone[batch.attempt]] = 0.0
    else:
        group, count = group_codes(batch.group)
        episode = _relative(reward, group, count, normalise)[batch.attempt]
    return credit_turns(episode + weight * _by_turn(batch, discount, normalise))


def _by_turn(batch: Batch, discount: float, normalise: Normalise) -> Floats:
    returns = discounted(rewards(batch), batch.attempt, discount)
    known = batch.state >= 0
    found = np.zeros(len(returns))
    anchor, count = group_codes(pair_codes(batch.group[batch.attempt[known]], batch.state[known]))
    found[known] = _relative(returns[known], anchor, count, normalise)
    return found


def _relative(values: Floats, group: Ints, count: int, normalise: Normalise) -> Floats:
    centred = values - mean(values, group, count)[group]
    if normalise == "deviation":
        centred /= deviation(values, group, count)[group] + EPSILON
    return centred
