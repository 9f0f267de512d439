"""Tiered rewards: the nearer to the goal, the more each further step is worth.

After Sweet Spot Learning (catalogued from its abstract: progressively amplified tiers that keep the order of attempts);
its formula was not seen, this one is ours. Of K tiers, an attempt reaches as many as its best measured progress allows;
the last is kept for a verified pass. With k tiers reached:

    r = (growth^k - 1) / (growth^K - 1), in [0, 1];      A_i = (r_i - m) / (s + epsilon), over the group

so a verified pass is 1, anything else less, and more progress never less than less. `growth` 1 makes equal tiers.
"""

from __future__ import annotations

import numpy as np

from ._groups import credit_attempts, deviation, group_codes, mean, require_column
from .interface import PASS, Batch, Credit, Floats


def sweet_spot(
    batch: Batch, *, tiers: tuple[float, ...] = (0.25, 0.5, 0.75), growth: float = 2.0, epsilon: float = 1e-6
) -> Credit:
    """Credit [T] in standard deviations of the group, of the tiered reward.

    Args:
        batch: Needs outcomes and `progress`; rewards are not looked at.
        tiers: Shares of progress below 1 at which a tier begins, rising.
        growth: How much more each tier is worth than the one before, at least 1.
        epsilon: Added to the deviation.
    """
    if list(tiers) != sorted(set(tiers)) or any(not 0 < tier < 1 for tier in tiers) or growth < 1:
        raise ValueError(f"tiers must rise within 0 and 1 and growth be 1 or more; got {tuple(tiers)} and {growth}")
    reward = tiered(batch, tuple(tiers), growth)
    group, count = group_codes(batch.group)
    centred = reward - mean(reward, group, count)[group]
    return credit_attempts(centred / (deviation(reward, group, count)[group] + epsilon), batch)


def tiered(batch: Batch, tiers: tuple[float, ...], growth: float) -> Floats:
    """Returns the tiered reward [A]."""
    shares = require_column(batch, "progress")
    best = np.zeros(len(batch.group))
    np.maximum.at(best, batch.attempt, np.nan_to_num(shares))
    reached = np.searchsorted(np.asarray(tiers), best, side="right")
    reached[batch.outcome == PASS] = len(tiers) + 1
    if growth == 1:
        return np.asarray(reached / (len(tiers) + 1), dtype=np.float64)
    return np.asarray((growth**reached - 1) / (growth ** (len(tiers) + 1) - 1), dtype=np.float64)
