"""M-GRPO: the main agent against main agents, sub-agents against sub-agents.

Source: catalogued from the abstract and from the released code (MrlX). A sub-agent's attempt names in `parent` the one
that called it; calls may be nested. Attempts without a parent are compared with one another in their group, by GRPO;
sub-agents with all sub-agents of the group, independent of their callers:

    A_i = (r_i - m) / (s + epsilon), m and s over the attempts of the group and of i's rank (main or sub)

A sub-agent without a reward of its own gets the reward of the main attempt that it worked for, as in the released code.
Their constants for it (0 for bad format, 0.1 where the main attempt scores 0 or 0.1, else 1) are rewards and are set
outside.
"""

from __future__ import annotations

import numpy as np

from ._groups import credit_attempts, deviation, group_codes, mean, pair_codes, require_column
from .interface import Batch, Credit, Floats, Ints


def m_grpo(batch: Batch, *, epsilon: float = 1e-6) -> Credit:
    """Credit [T] in standard deviations."""
    main = main_attempts(batch.parent)
    reward: Floats = np.where(np.isnan(batch.reward), batch.reward[main], batch.reward)
    require_column(batch._replace(reward=reward), "reward")
    group, count = group_codes(pair_codes(batch.group[main], (batch.parent >= 0).astype(np.int64)))
    centred = reward - mean(reward, group, count)[group]
    return credit_attempts(centred / (deviation(reward, group, count)[group] + epsilon), batch)


def main_attempts(parent: Ints) -> Ints:
    """Returns each attempt's main attempt [A]; a main attempt is its own."""
    found = np.where(parent >= 0, parent, np.arange(len(parent)))
    # Each pass doubles how far up is looked, so that calls nested n deep take log n passes.
    for _ in range(max(len(parent), 2).bit_length() + 1):
        above = found[found]
        if np.array_equal(above, found):
            break
        found = above
    if np.all(parent[found] < 0):
        return found
    raise ValueError("sub-agents' parents go in a circle")
