"""RLOO: an attempt's reward less the mean of the *other* attempts of its group.

Source: "Back to Basics", arXiv 2402.14740. With n attempts in the group:

    A_i = r_i - sum of the others / (n - 1)  =  n / (n - 1) * (r_i - m)

The baseline does not contain the attempt itself, so it is unbiased. A group of one has no other: 0.
"""

from __future__ import annotations

import numpy as np

from ._groups import credit_attempts, group_codes, mean, require_column
from .interface import Batch, Credit, Floats


def rloo(batch: Batch) -> Credit:
    """Credit [T] in units of the reward."""
    return credit_attempts(leave_one_out_of_group(batch), batch)


def leave_one_out_of_group(batch: Batch) -> Floats:
    """The same by attempt [A]."""
    reward = require_column(batch, "reward")
    group, count = group_codes(batch.group)
    size = np.bincount(group, minlength=count)
    factor = np.divide(size, size - 1, out=np.zeros(count), where=size > 1)
    return np.asarray(factor[group] * (reward - mean(reward, group, count)[group]), dtype=np.float64)
