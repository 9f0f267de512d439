"""Importance weights between the current policy and an older policy or another engine.

Sources: truncated importance sampling as in TRL, verl and slime (cap 2 by token); IcePop's band (weights outside 0.5 to
5 are masked); GSPO, arXiv 2507.18071 (sequence ratio as a geometric mean); ST-PPO (catalogued from its abstract: the
ratio of a turn is the product over its tokens). With d = log p_now - log p_then of each sampled token, over a unit U (a
token, a turn or a sequence):

    w = exp(sum of d over U)         where `mean=False`
    w = exp(mean of d over U)        where `mean=True`

Every token of the unit has its weight. `cap` cuts weights above it; `band` sets those outside of it to 0, which masks
the unit. Differences are summed before they are exponentiated and cut at +-80, so nothing overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._groups import group_codes
from .interface import Floats, Ints

_MOST = 80.0


class Importance(NamedTuple):
    """Importance weights and their statistics."""

    weight: NDArray[np.float32]
    """[N] of each token."""
    cut: int
    """Tokens whose weight was above the cap."""
    masked: int
    """Tokens outside the band, or without a log-probability."""
    mismatch: float
    """Mean of w - 1 - log w by token, in nats: an estimate, never negative, of their divergence (Schulman's k3)."""


def importance_weights(
    now: Floats,
    then: Floats,
    unit: Ints | None = None,
    *,
    mean: bool = False,
    cap: float | None = 2.0,
    band: tuple[float, float] | None = None,
) -> Importance:
    """Returns the importance weights of sampled tokens.

    Args:
        now: [N] log-probability by the policy that is trained, in nats.
        then: [N] by the one that sampled it. NaN in either masks the whole unit.
        unit: [N] which turn or sequence a token is of; every token its own where left out.
        mean: Whether the unit's differences are averaged instead of summed.
        cap: The largest weight; None for no cap.
        band: Smallest and largest weight that is not masked; applied before the cap.
    """
    new, old = np.asarray(now, dtype=np.float64), np.asarray(then, dtype=np.float64)
    if new.shape != old.shape or new.ndim != 1 or (unit is not None and unit.shape != new.shape):
        units = None if unit is None else unit.shape
        raise ValueError(f"one entry a token is expected in each; got {new.shape}, {old.shape} and {units}")
    if (cap is not None and cap <= 0) or (band is not None and not 0 <= band[0] < band[1]):
        raise ValueError(f"cap must be positive and band rise from 0 or more; got {cap} and {band}")
    gap = new - old
    known = ~np.isnan(gap)
    if unit is None:
        log: Floats = gap
    else:
        number, count = group_codes(unit)
        total = np.bincount(number, weights=gap, minlength=count)
        size = np.bincount(number, minlength=count) if mean else np.ones(count)
        log = (total / size)[number]
    weight = np.exp(np.clip(log, -_MOST, _MOST))
    gone = np.isnan(weight)
    if band is not None:
        gone |= (weight < band[0]) | (weight > band[1])
    cut = ~gone & (weight > cap) if cap is not None else np.zeros(len(weight), dtype=bool)
    kept = np.where(gone, 0.0, np.minimum(weight, np.inf if cap is None else cap))
    token = np.clip(gap[known], -_MOST, _MOST)
    mismatch = float(np.mean(np.expm1(token) - token)) if len(token) else 0.0
    return Importance(kept.astype(np.float32), int(cut.sum()), int(gone.sum()), mismatch)
