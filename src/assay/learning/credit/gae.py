"""Generalised advantage estimation over turns: a critic's surprise, carried backwards.

Sources: arXiv 1506.02438, by turns as in Turn-PPO, arXiv 2512.17008 (discount 0.99, decay 0.9). With V_t the critic's
value before turn t and e_t what the turn earned:

    d_t = e_t + discount * V_{t+1} - V_t,      A_t = d_t + discount * decay * A_{t+1}

After an attempt's last turn V is 0 where it ended and `final_value` where a limit cut it off.
"""

from __future__ import annotations

from ._groups import credit_turns, discounted, last_turns, require_column, rewards
from .interface import Batch, Credit


def gae(batch: Batch, *, discount: float = 0.99, decay: float = 0.9) -> Credit:
    """Credit [T] in units of the reward.

    Args:
        batch: Needs `value`; `final_value` where attempts were cut off.
        discount: By turn, in [0, 1].
        decay: Lambda: 0 trusts the critic, 1 the rewards.
    """
    require_column(batch, "reward")
    value = require_column(batch, "value")
    last = last_turns(batch)
    following = value.copy()
    following[:-1] = value[1:]
    following[last] = 0.0 if batch.final_value is None else batch.final_value[batch.attempt[last]]
    surprise = rewards(batch) + discount * following - value
    return credit_turns(discounted(surprise, batch.attempt, discount * decay))
