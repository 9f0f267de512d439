"""XRPO sharpening: unlikely successes get more credit.

Source: arXiv 2510.06672 (its form from secondary sources). Over GRPO's advantage A_i, with s_i the mean log-probability
of the attempt's sampled tokens and S the mean of s over its group:

    novelty_i = exp(s_i - S);      A_i + min(max(strength * (1 - novelty_i), 0), bound * A_i)      where A_i > 0

and A_i where it is not positive. So a likely attempt keeps its credit, an unlikely one gains at most `bound` times it.
The constants 1 and 1 are ours; the paper's were not seen. Attempts whose log-probabilities are not known keep theirs.
"""

from __future__ import annotations

import numpy as np

from ._groups import credit_attempts, deviation, group_codes, mean, per_attempt, require_column
from .interface import Batch, Credit, Floats


def xrpo(batch: Batch, *, strength: float = 1.0, bound: float = 1.0, epsilon: float = 1e-6) -> Credit:
    """Credit [T] in standard deviations of the group.

    Args:
        batch: Needs rewards, log-probabilities and tokens.
        strength: How much is added at most for what was least likely.
        bound: How much is added at most, as a share of the advantage.
        epsilon: Added to the deviation.
    """
    reward = require_column(batch, "reward")
    group, count = group_codes(batch.group)
    advantage = reward - mean(reward, group, count)[group]
    advantage = advantage / (deviation(reward, group, count)[group] + epsilon)
    likely = likelihood(batch)
    known = ~np.isnan(likely)
    middle = mean(np.where(known, likely, 0.0), group, count, known.astype(np.float64))
    # Not above 0: what is likelier than the mean gains nothing, and a wild log-probability cannot overflow.
    novelty = np.exp(np.minimum(np.where(known, likely - middle[group], 0.0), 0.0))
    gain = np.minimum(strength * (1.0 - novelty), bound * advantage)
    return credit_attempts(advantage + np.where(advantage > 0, gain, 0.0), batch)


def likelihood(batch: Batch) -> Floats:
    """Returns the mean log-probability [A] of each attempt's sampled tokens, in nats; NaN if any is unknown."""
    tokens = batch.tokens.astype(np.float64)
    sampled = per_attempt(tokens, batch)
    total = per_attempt(np.where(batch.tokens > 0, batch.logprob * tokens, 0.0), batch)
    return np.asarray(np.divide(total, sampled, out=np.full(len(total), np.nan), where=sampled > 0))
