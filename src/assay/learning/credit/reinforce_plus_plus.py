"""REINFORCE++: returns to go, whitened over the whole batch instead of over each group.

Source: arXiv 2501.03262. The return of turn t is what is earned from there on, discounted by turn,

    G_t = e_t + discount * G_{t+1},      A_t = (G_t - mean G) / (deviation of G + epsilon)

with mean and deviation over all sampled tokens of the batch: each turn weighs as many tokens as it has, as in the
published form, which works on tokens. With `baseline="group"` (their variant for several attempts at a task) the mean
reward of the group is first taken from each outcome. A penalty for leaving the reference policy is the loss's part.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._groups import credit_turns, discounted, group_codes, mean, require_column, rewards
from .interface import Batch, Credit


def reinforce_plus_plus(
    batch: Batch, *, baseline: Literal["none", "group"] = "none", discount: float = 1.0, epsilon: float = 1e-8
) -> Credit:
    """Credit [T] in standard deviations of the batch.

    Args:
        batch: Needs rewards, and tokens for the weights.
        baseline: Whether the group's mean is taken off first.
        discount: By turn, in [0, 1].
        epsilon: Added to the deviation.
    """
    reward = require_column(batch, "reward")
    if baseline == "group":
        group, count = group_codes(batch.group)
        batch = batch._replace(reward=reward - mean(reward, group, count)[group])
    returns = discounted(rewards(batch), batch.attempt, discount)
    weights = batch.tokens.astype(np.float64)
    total = float(weights.sum())
    if not total:
        return credit_turns(np.zeros(len(returns)))
    centred = returns - float(np.dot(weights, returns)) / total
    scale = float(np.sqrt(np.dot(weights, centred * centred) / total))
    return credit_turns(centred / (scale + epsilon))
