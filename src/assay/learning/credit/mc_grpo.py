"""MC-GRPO: the group's median is the baseline, and the median attempt is masked.

Source: arXiv 2601.22582. One attempt more than needed is drawn, so that their number is odd; with few attempts the mean
is easily dragged to the wrong side of one of them, the median is not:

    A_i = r_i - median of the group

In an odd group the first attempt that has the median's reward, the pivot, is masked. In an even one (a case that the
paper does not have) the median is the mean of the middle two and nothing is masked: ours.

The released code also divides by the median absolute deviation plus 1e-3 (`scale="mad"`) and multiplies advantages that
are not 0 by attempts over their number (`rescale=True`). Neither is the default: with rewards of 0 and 1 the median
absolute deviation is 0 as soon as more than half agree, and an advantage of 1 becomes 1,000.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._groups import group_codes, median, require_column
from .interface import Batch, Bools, Credit, Floats, Ints

FLOOR = 1e-3


def mc_grpo(batch: Batch, *, scale: Literal["none", "mad"] = "none", rescale: bool = False) -> Credit:
    """Credit [T] in units of the reward, or of the median absolute deviation.

    Args:
        batch: Needs rewards; odd groups are best.
        scale: What to divide by.
        rescale: Whether to make up for the attempts whose advantage is 0.
    """
    reward = require_column(batch, "reward")
    group, count = group_codes(batch.group)
    centred = reward - median(reward, group, count)[group]
    pivot = _pivots(centred, group, count)
    if scale == "mad":
        centred = centred / (median(np.abs(centred), group, count)[group] + FLOOR)
    if rescale:
        size = np.bincount(group, minlength=count)
        moved = np.bincount(group, weights=centred != 0, minlength=count)
        centred = centred * np.divide(size, moved, out=np.ones(count), where=moved > 0)[group]
    masked = pivot[batch.attempt]
    reasons = {"pivot of its group": int(masked.sum())} if masked.any() else {}
    advantage = np.where(masked, 0.0, centred[batch.attempt]).astype(np.float32)
    return Credit(advantage, ~masked, reasons)


def _pivots(centred: Floats, group: Ints, count: int) -> Bools:
    """Returns a mask [A] of the pivots of groups of odd size, at least 3."""
    size = np.bincount(group, minlength=count)
    possible = np.flatnonzero((centred == 0) & (size[group] % 2 == 1) & (size[group] > 1))
    _, first = np.unique(group[possible], return_index=True)
    found = np.zeros(len(group), dtype=bool)
    found[possible[first]] = True
    return found
