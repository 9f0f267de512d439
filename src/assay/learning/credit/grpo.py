"""GRPO: an attempt is as good as it is better than the others at its task, in their standard deviations.

Source: DeepSeekMath, arXiv 2402.03300. With rewards r of a group, mean m and standard deviation s (n - 1 below):

    A_i = (r_i - m) / (s + epsilon)

for every turn of attempt i. A group of one, or one in which all are equal, gives 0. That the loss divides by each
attempt's length is the trainer's part.
"""

from __future__ import annotations

from ._groups import credit_attempts, deviation, group_codes, mean, require_column
from .interface import Batch, Credit


def grpo(batch: Batch, *, epsilon: float = 1e-6) -> Credit:
    """Credit [T] in standard deviations of the group."""
    reward = require_column(batch, "reward")
    group, count = group_codes(batch.group)
    middle, scale = mean(reward, group, count), deviation(reward, group, count)
    return credit_attempts((reward - middle[group]) / (scale[group] + epsilon), batch)
