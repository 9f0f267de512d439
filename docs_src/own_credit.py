"""A custom credit method: of the attempts that passed, the shorter ones earn more; and the effect of evidence."""

from pathlib import Path

import numpy as np

from assay.learning.credit import Batch, Credit, CreditConfig, MaskStage, compute_credit, make_batch


def brevity(batch: Batch, *, worth: float = 0.5) -> Credit:
    """The reward, less up to `worth` for length, against the mean of the group."""
    turns = np.bincount(batch.attempt, minlength=len(batch.group))
    longest = np.maximum.reduceat(turns, np.flatnonzero(np.diff(batch.group, prepend=-1)))  # groups stand together here
    score = batch.reward * (1 - worth * turns / longest[np.unique(batch.group, return_inverse=True)[1]])
    size = np.bincount(batch.group)
    advantage = score - (np.bincount(batch.group, weights=score) / size)[batch.group]
    held = advantage[batch.attempt].astype(np.float32)
    return Credit(held, np.ones(len(held), dtype=bool), {})


if __name__ == "__main__":
    # Four attempts at one task, of 1, 3, 2 and 2 turns. All but the third say that they passed; the fourth cheated.
    attempts = make_batch(
        group=[0, 0, 0, 0],
        reward=[1, 1, 0, 1],
        attempt=[0, 1, 1, 1, 2, 2, 3, 3],
        outcome=[0, 0, 1, 0],  # places in OUTCOMES: pass, pass, fail, pass
        integrity=[0, 0, 0, 1],  # the fourth failed it
        version=[7, 7, 7, 7, 7, 7, 2, 2],
    )
    own = f"{Path(__file__)}:brevity"
    for config in (CreditConfig("rloo"), CreditConfig(own), CreditConfig(own, evidence="ignore")):
        found = compute_credit(attempts, config)
        told = [f"{advantage:+.2f}" for advantage in found.advantage]
        print(f"{config.method.rpartition(':')[2]:8}{config.evidence:7}", *told)
    fresh = compute_credit(attempts, CreditConfig("rloo", masks=(MaskStage("fresh", {"now": 8, "most": 3}),)))
    print(fresh.mask.tolist(), fresh.reasons)
