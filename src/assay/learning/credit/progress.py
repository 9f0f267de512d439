"""Attribution by verifier progress: a turn is worth the share of the goal that it gained.

With P_t the share of the goal reached after turn t, as a verifier measures it (never as the agent reports it), and
dP_t how much it rose since it was measured last (0 before the first turn; the first measurement of a fork, which holds
what the steps before it gained, is no rise):

    A_t = RLOO_i + weight * (dP_t - mean of dP over the turns of the group)

The sum of dP over an attempt from the beginning is its final progress: what is lost again is taken back, so going round
in circles earns nothing. The form is ours; "A Practitioner's Guide to Multi-turn Agentic RL" finds that dense rewards
help, by method.
"""

from __future__ import annotations

from ._groups import credit_turns, group_codes, mean, progress_gains
from .interface import Batch, Credit
from .rloo import leave_one_out_of_group


def progress(batch: Batch, *, weight: float = 1.0) -> Credit:
    """Credit [T] in units of the reward."""
    gained = progress_gains(batch)
    group, count = group_codes(batch.group[batch.attempt])
    whole = leave_one_out_of_group(batch)
    return credit_turns(whole[batch.attempt] + weight * (gained - mean(gained, group, count)[group]))
