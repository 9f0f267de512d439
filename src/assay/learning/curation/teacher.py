"""Ranks teachers for a student by rank and surprisal of their tokens.

Source: RSR, arXiv 2601.14249. With r_t the rank of a token among all that the student could have said there, cut at
100, and s_t its surprisal in nats, over an attempt's trained tokens:

    RSR = mean r / mean s;      of a teacher: sum over attempts of mean r / sum over attempts of mean s

Lower is better: tokens that surprise the student (large s) and yet rank high (small r) are what it can learn. (The
direction is inferred from the abstract and the code.) The stage needs a forward pass of the student over token rows
(`learning.curation.student`), so it is off by default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .interface import AttemptCandidate, Selection

CAP = 100


class Surprisal(NamedTuple):
    """Of each token [N] of a row, given those before it; the first has none and is NaN in both."""

    rank: NDArray[np.float64]
    """1 for the likeliest."""
    nll: NDArray[np.float64]
    """Unit: nats."""


class Student(Protocol):
    """A model that reads rows. Named as `module:Class`, made with the folder of its weights."""

    def read(self, token_ids: NDArray[Any], /) -> Surprisal:
        """Returns rank and surprisal of a row [N]."""
        ...


def rank_and_surprisal(found: Surprisal, mask: NDArray[np.bool_]) -> tuple[float, float] | None:
    """Returns mean capped rank and mean surprisal of the trained tokens [N]; None without any."""
    counted = mask & ~np.isnan(found.nll)
    if not counted.any():
        return None
    return float(np.minimum(found.rank[counted], CAP).mean()), float(found.nll[counted].mean())


def rank_surprisal_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Returns the RSR of attempts from their mean ranks and surprisals; infinite without surprisal."""
    surprisal = sum(nll for _, nll in pairs)
    return sum(rank for rank, _ in pairs) / surprisal if surprisal > 0 else float("inf")


def teacher(
    candidates: Sequence[AttemptCandidate],
    *,
    most: int = 1,
    by: Literal["agent", "model", "run"] = "model",
) -> list[Selection]:
    """Keeps attempts of the `most` teachers with the lowest RSR over the candidates."""
    pairs_by_teacher: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in candidates:
        if one.rsr is not None:
            pairs_by_teacher[str(getattr(one, by))].append(one.rsr)
    ratios = {name: rank_surprisal_ratio(pairs) for name, pairs in pairs_by_teacher.items()}
    order = sorted(ratios, key=lambda name: (ratios[name], name))

    def decide(one: AttemptCandidate) -> Selection:
        name = str(getattr(one, by))
        if one.rsr is None:
            return Selection(False, "the student did not read it: name one with --student")
        rank = order.index(name) + 1
        return Selection(rank <= most, f"teacher {name} has RSR {ratios[name]:.2f}, place {rank} of {len(order)}")

    return [decide(one) for one in candidates]
