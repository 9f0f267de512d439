"""M-GRPO: the main agent against main agents, sub-agents against sub-agents.

Source: catalogued from the abstract and from the released code (MrlX). A sub-agent's attempt names in `parent` the one
that called it; calls may be nested. Attempts without a parent are compared with one another in their group, by GRPO;
sub-agents with all sub-agents of the group, whoever called them and however often:

    A_i = (r_i - m) / (s + epsilon), m and s over the attempts of the group and of i's rank (main or sub)

A sub-agent without a reward of its own gets the reward of the main attempt that it worked for, as in the released code.
Their constants for it (0 for bad format, 0.1 where the main attempt scores 0 or 0.1, else 1) are rewards and are set
outside.

Because the number of calls varies, batches of fixed size need `align_sub_agents`: a fixed number of sub-agents for each
main attempt, some repeated or left out. The paper describes it, the released code lacks it; this form is ours.
"""

from __future__ import annotations

import numpy as np

from ._groups import credit_attempts, deviation, group_codes, mean, pair_codes, require_column
from .interface import Batch, Credit, Floats, Ints

__all__ = ["align_sub_agents", "m_grpo", "main_attempts"]


def m_grpo(batch: Batch, *, epsilon: float = 1e-6) -> Credit:
    """Credit [T] in standard deviations.

    Args:
        batch: Needs rewards of the main attempts, and `parent`.
        epsilon: Added to the deviation.

    Raises:
        ValueError: A main attempt has no reward, or parents go in a circle.
    """
    main = main_attempts(batch.parent)
    reward: Floats = np.where(np.isnan(batch.reward), batch.reward[main], batch.reward)
    require_column(batch._replace(reward=reward), "reward")
    group, count = group_codes(pair_codes(batch.group[main], (batch.parent >= 0).astype(np.int64)))
    centred = reward - mean(reward, group, count)[group]
    return credit_attempts(centred / (deviation(reward, group, count)[group] + epsilon), batch)


def main_attempts(parent: Ints) -> Ints:
    """Returns each attempt's main attempt [A]; a main attempt is its own.

    Raises:
        ValueError: Parents go in a circle.
    """
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


def align_sub_agents(parent: Ints, size: int, *, seed: int = 0) -> Ints:
    """Attempts [main attempts that have any * size] so that each main attempt has `size` sub-agents.

    Where it has more, some are left out at random; where fewer, some come again, each as nearly as often as the next.
    Main attempts without sub-agents have none to repeat and are left out.
    """
    random = np.random.default_rng(seed)
    main = main_attempts(parent)
    subs = np.flatnonzero(parent >= 0)
    subs = subs[random.permutation(len(subs))]
    subs = subs[np.argsort(main[subs], kind="stable")]
    _, start, held = np.unique(main[subs], return_index=True, return_counts=True)
    places = start[:, None] + np.arange(size)[None, :] % held[:, None]
    return np.asarray(subs[places].ravel(), dtype=np.int64)
