"""Attribution by leaving one out: a turn is worth what the attempt loses when it is replayed without it.

With R the attempt's reward and R_-t that of the same attempt without turn t (column `without`, from replays),

    c_t = R - R_-t,      A_t = RLOO_i + weight * (c_t - mean of c over the attempt's measured turns)

c_t is 1 where the turn was needed, 0 where it made no difference, negative where it did harm. Turns that were not
replayed, and attempts of which none was, keep the attempt's advantage. SPA-RL (arXiv 2505.20732) estimates such
contributions with a model and its released code replaces them by the RLOO of the attempt: that is what remains here at
`weight=0`. Measuring them by replay is ours.
"""

from __future__ import annotations

import numpy as np

from ._groups import credit_turns, mean, require_column
from .interface import Batch, Credit
from .rloo import leave_one_out_of_group


def leave_one_out(batch: Batch, *, weight: float = 1.0) -> Credit:
    """Credit [T] in units of the reward."""
    without = require_column(batch, "without")
    whole = leave_one_out_of_group(batch)
    measured = ~np.isnan(without)
    worth = np.where(measured, batch.reward[batch.attempt] - without, 0.0)
    middle = mean(worth, batch.attempt, len(batch.group), measured.astype(np.float64))
    part = np.where(measured, worth - middle[batch.attempt], 0.0)
    return credit_turns(whole[batch.attempt] + weight * part)
