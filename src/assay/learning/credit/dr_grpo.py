"""Dr. GRPO: an attempt's reward less the mean of its group, and nothing divided.

Source: "Understanding R1-Zero-Like Training", arXiv 2503.20783. Dividing by the deviation favours tasks that are nearly
always or nearly never solved, so it is left out:

    A_i = r_i - m

The other half of the method, a loss that divides by a constant instead of by each attempt's length, is the trainer's.
"""

from __future__ import annotations

from ._groups import credit_attempts, group_codes, mean, require_column
from .interface import Batch, Credit


def dr_grpo(batch: Batch) -> Credit:
    """Credit [T] in units of the reward."""
    reward = require_column(batch, "reward")
    group, count = group_codes(batch.group)
    return credit_attempts(reward - mean(reward, group, count)[group], batch)
