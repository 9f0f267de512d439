"""Masks the turns of a failed attempt before its first error, which nothing shows to be wrong.

After SCOPE (catalogued from its abstract: the first wrong step is found, the prefix before it is kept); the mask is
ours. In attempts that failed, turns before the first that came to an error are masked, so a good beginning is not
blamed for a bad end; with `after="mask"` the turns after it are too, and the error alone is blamed. Attempts that
passed, and failed ones without any error on record, keep all their turns.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._groups import mask_turns, turn_numbers
from .interface import FAIL, Batch, Credit


def first_error(batch: Batch, credit: Credit, *, after: Literal["keep", "mask"] = "keep") -> Credit:
    """Masks those turns."""
    number = turn_numbers(batch)
    first = np.full(len(batch.group), -1, dtype=np.int64)
    errors = np.flatnonzero(batch.error)[::-1]
    first[batch.attempt[errors]] = number[errors]
    first[batch.outcome != FAIL] = -1
    at = first[batch.attempt]
    before = (at >= 0) & (number < at)
    later = (at >= 0) & (number > at) & (after == "mask")
    found = mask_turns(credit, before, "before the first error")
    return mask_turns(found, later, "after the first error")
