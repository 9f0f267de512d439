"""Credit where a share of the verdicts is lost: as failures, as where a crashed check is paid 0, or masked.

Named in recipes as `PATH/lost_verdicts.py:lost`. Which verdicts are lost is a coin of the attempt's own sampled tokens,
so that it is the same whenever the same attempts are looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Literal

import numpy as np

from assay import plugins
from assay.learning.credit.evidence import evidence_aware
from assay.learning.credit.interface import FAIL, UNKNOWN, Batch, Bools, Credit
from assay.records import digest_bytes

__all__ = ["lost", "which_are_lost"]


def lost(
    batch: Batch,
    *,
    method: str = "grpo",
    treat: Literal["fail", "mask"] = "fail",
    share: float = 0.2,
    options: Mapping[str, object] | None = None,
) -> Credit:
    """Credit [T] of another estimator, after a share of the verdicts was lost.

    Args:
        batch: Of verified attempts.
        method: The estimator.
        treat: `fail`: a lost verdict counts as a failure. `mask`: it is left out, of the baseline as well.
        share: How many are lost.
        options: Of the estimator.
    """
    gone = which_are_lost(batch, share)
    outcome, reward = batch.outcome.copy(), batch.reward.copy()
    outcome[gone] = FAIL if treat == "fail" else UNKNOWN
    reward[gone] = 0.0 if treat == "fail" else np.nan
    estimator = evidence_aware(plugins.load("advantages", method))
    return estimator(batch._replace(outcome=outcome, reward=reward), **(options or {}))


def which_are_lost(batch: Batch, share: float) -> Bools:
    """[A] by a coin of each attempt's log-probabilities."""
    ends = np.searchsorted(batch.attempt, np.arange(len(batch.group) + 1))
    told = [batch.logprob[start:end].tobytes() for start, end in itertools.pairwise(ends)]
    coins = [int(digest_bytes(one).removeprefix("blake3:")[:8], 16) / 2**32 for one in told]
    return np.array(coins) < share
