"""Step returns: each turn's return to go against those of other attempts at the same step.

Source: REINFORCE with returns to go (Williams 1992), by turns as ROLL's `step_reinforce` has it. With

    G_t = e_t + discount * G_{t+1}

the baseline is the mean of G over the turns of the group (`"group"`), over those of the group with the same number
(`"turn"`: ours; a return late in an attempt is discounted less, so turns of one number are the fair comparison), or
nothing.
"""

from __future__ import annotations

from typing import Literal

from ._groups import (
    credit_turns,
    deviation,
    discounted,
    group_codes,
    mean,
    pair_codes,
    require_column,
    rewards,
    turn_numbers,
)
from .interface import Batch, Credit


def step_returns(
    batch: Batch,
    *,
    discount: float = 0.95,
    baseline: Literal["group", "turn", "none"] = "turn",
    normalise: bool = False,
    epsilon: float = 1e-6,
) -> Credit:
    """Credit [T] in units of the reward, or in standard deviations.

    Args:
        batch: Needs rewards.
        discount: By turn, in [0, 1].
        baseline: What is taken off.
        normalise: Whether to divide by the deviation of what the baseline is the mean of.
        epsilon: Added to the deviation.
    """
    require_column(batch, "reward")
    returns = discounted(rewards(batch), batch.attempt, discount)
    if baseline == "none":
        if normalise:
            raise ValueError("step returns without a baseline have no deviation to normalise by; set baseline")
        return credit_turns(returns)
    keys = batch.group[batch.attempt]
    group, count = group_codes(keys if baseline == "group" else pair_codes(keys, turn_numbers(batch)))
    centred = returns - mean(returns, group, count)[group]
    if normalise:
        centred = centred / (deviation(returns, group, count)[group] + epsilon)
    return credit_turns(centred)
