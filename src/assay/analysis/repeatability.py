"""Similarity of several attempts of one agent at one task.

Source: the reliability measures of HAL (arXiv 2510.11977), formulas in our own code:

    C_out  = (2 p - 1)^2                       outcomes, p the share that passed
    C_traj = 1 - mean Jensen-Shannon divergence (base 2) of the mixtures of acts, over pairs of attempts that passed
    C_seq  = 1 - mean Levenshtein distance / longer length of the sequences of acts, over the same pairs
    C_res  = exp(-mean coefficient of variation) of used resources (cost, tokens, seconds)

All in [0, 1], 1 for equal attempts. Published for successes alone; `over` chooses.

Misleading: C_out is 1 for an agent that always fails. Its estimate from n attempts is biased upwards, by 1/n at p =
1/2: two attempts have C_out 0 or 1. None means too few attempts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from .alignment import levenshtein
from .workflow import jensen_shannon

__all__ = ["Repeatability", "repeatability", "resource_consistency"]


class Repeatability(msgspec.Struct, frozen=True):
    """Measures over the attempts of one agent at one task."""

    outcome: float | None
    mixture: float | None
    sequence: float | None
    attempts: int
    """Number of known outcomes."""
    compared: int
    """Number of attempts compared act by act."""


def repeatability(
    sequences: Sequence[Sequence[Hashable]],
    outcomes: Sequence[bool | None],
    over: Literal["passed", "all"] = "passed",
) -> Repeatability:
    """Returns the three measures.

    Args:
        sequences: The acts of each attempt, in the grain to compare: tools, or stages.
        outcomes: Per attempt; None if unknown.
        over: Attempts that are compared act by act.

    Raises:
        ValueError: The lengths differ.
    """
    held = [each for each, outcome in zip(sequences, outcomes, strict=True) if outcome is True or over == "all"]
    known = [outcome for outcome in outcomes if outcome is not None]
    pairs = list(combinations(held, 2))
    return Repeatability(
        outcome=(2 * sum(known) / len(known) - 1) ** 2 if len(known) > 1 else None,
        mixture=1.0 - float(np.mean([_divergence(*pair) for pair in pairs])) if pairs else None,
        sequence=1.0 - float(np.mean([_distance(*pair) for pair in pairs])) if pairs else None,
        attempts=len(known),
        compared=len(held),
    )


def _divergence(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    if not first or not second:
        return float(bool(first) != bool(second))
    codes: dict[Hashable, int] = {}
    counts = [[codes.setdefault(act, len(codes)) for act in each] for each in (first, second)]
    shares = [np.bincount(each, minlength=len(codes)) / len(each) for each in counts]
    return jensen_shannon(*shares)


def _distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    longest = max(len(first), len(second))
    return levenshtein(first, second) / longest if longest else 0.0


def resource_consistency(used: Mapping[str, Sequence[float]]) -> float | None:
    """Returns C_res over the attempts' non-negative amounts by resource.

    Resources with fewer than two amounts or without use are ignored; None without any other.
    """
    spreads = [
        float(np.std(figures, ddof=1) / np.mean(figures))
        for figures in used.values()
        if len(figures) > 1 and np.mean(figures) > 0
    ]
    return math.exp(-float(np.mean(spreads))) if spreads else None
