"""Masks turns sampled too many weight versions ago.

Source: prime-rl's bound on off-policy steps and AReaL's versions by token, in our own form. The lag of a turn is the
trainer's version less the one that sampled it. By attempt, its oldest turn decides for all, as a replayed beginning
shapes what follows; by turn, each for itself. The attempts stay in the baselines of their groups: their rewards are
no less true, and leaving slow attempts out of the mean would favour fast ones.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._groups import mask_turns
from .interface import Batch, Credit


def fresh(
    batch: Batch, credit: Credit, *, now: int, most: int = 8, by: Literal["attempt", "turn"] = "attempt"
) -> Credit:
    """Masks stale turns.

    Args:
        batch: Needs `version`; a turn without one is masked.
        credit: So far.
        now: Version of the weights that are about to be trained.
        most: The largest lag that is used.
        by: Whether an attempt is stale as a whole.
    """
    if np.any(batch.version > now):
        raise ValueError(f"a turn is of version {int(batch.version.max())}, newer than the trainer's {now}")
    found = mask_turns(credit, batch.version < 0, "version not known")
    behind = now - batch.version
    if by == "attempt":
        oldest = np.zeros(len(batch.group), dtype=np.int64)
        np.maximum.at(oldest, batch.attempt, np.where(batch.version < 0, 0, behind))
        behind = oldest[batch.attempt]
    return mask_turns(found, (behind > most) & (batch.version >= 0), "stale")
