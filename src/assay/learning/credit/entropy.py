"""Keeps the turns with the highest policy entropy.

Source: DART (catalogued from its abstract: training on steps of high entropy), and arXiv 2506.01939, which finds that
the fifth of tokens with the highest entropy carries nearly all of the learning. Here by turn: of the turns that are not
masked yet, the share `share` with the highest mean entropy stays, in the whole batch or in each group. Turns of equal
entropy at the bound stay in the order in which they stand. A turn whose entropy is not known is masked.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._groups import group_codes, mask_turns, require_column
from .interface import Batch, Credit


def entropy(batch: Batch, credit: Credit, *, share: float = 0.2, within: Literal["batch", "group"] = "batch") -> Credit:
    """Masks turns with low entropy.

    Args:
        batch: Needs `entropy`, in nats.
        credit: So far.
        share: How much stays, in (0, 1]: of n turns at least one, and n * share rounded up.
        within: What the share is of.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1]; got {share}")
    unsure = require_column(batch, "entropy")
    found = mask_turns(credit, np.isnan(unsure), "entropy not known")
    turns = np.flatnonzero(found.mask)
    keys = batch.group[batch.attempt[turns]] if within == "group" else np.zeros(len(turns), dtype=np.int64)
    group, count = group_codes(keys)
    order = np.lexsort((-unsure[turns], group))
    size = np.bincount(group, minlength=count)
    rank = np.arange(len(turns)) - (np.cumsum(size) - size)[group[order]]
    # Less a hair, so that 5 * 0.2 stays 1 where floating point makes it 1.0000000000000002.
    kept = np.ceil(size * share - 1e-9)[group[order]]
    drop = np.zeros(len(found.mask), dtype=bool)
    drop[turns[order[rank >= kept]]] = True
    return mask_turns(found, drop, "entropy low")
