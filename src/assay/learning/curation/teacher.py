"""Whose attempts suit a student: by rank and surprisal of their tokens under it.

Source: RSR, arXiv 2601.14249. With r_t the rank of a token among all that the student could have said there, cut at
100, and s_t its surprisal in nats, over an attempt's trained tokens:

    RSR = mean r / mean s;      of a teacher: sum over attempts of mean r / sum over attempts of mean s

Lower suits better: tokens that surprise the student (large s) and yet rank high with it (small r) are what it can
learn. That lower is better is read out of abstract and code, which do not say it outright. Needs a forward pass of the
student over rows of tokens (`learning.curation.student`), so it is a stage of its own and off by default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .interface import Candidate, Decision

__all__ = ["CAP", "Student", "Surprisal", "rank_and_surprisal", "rank_surprisal_ratio", "teacher"]

CAP = 100


class Surprisal(NamedTuple):
    """Of each token [N] of a row, given those before it; the first has none and is NaN in both."""

    rank: NDArray[np.float64]
    """1 for the likeliest."""
    nll: NDArray[np.float64]
    """In nats."""


class Student(Protocol):
    """A model that reads rows. Named as `module:Class`, made with the folder of its weights."""

    def read(self, token_ids: NDArray[Any], /) -> Surprisal:
        """One row [N]."""
        ...


def rank_and_surprisal(found: Surprisal, mask: NDArray[np.bool_]) -> tuple[float, float] | None:
    """Mean cut rank and mean surprisal over the trained tokens [N]; None where there are none."""
    kept = mask & ~np.isnan(found.nll)
    if not kept.any():
        return None
    return float(np.minimum(found.rank[kept], CAP).mean()), float(found.nll[kept].mean())


def rank_surprisal_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """RSR of attempts by their mean ranks and surprisals. Infinite where nothing surprises: nothing is to be learnt."""
    surprisal = sum(nll for _, nll in pairs)
    return sum(rank for rank, _ in pairs) / surprisal if surprisal > 0 else float("inf")


def teacher(
    candidates: Sequence[Candidate],
    *,
    most: int = 1,
    by: Literal["agent", "model", "run"] = "model",
) -> list[Decision]:
    """Keeps attempts of the `most` teachers with the lowest RSR over the candidates.

    Args:
        candidates: What is decided about; those that the student did not read are left out.
        most: Teachers.
        by: What tells teachers apart.
    """
    held: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in candidates:
        if one.rsr is not None:
            held[str(getattr(one, by))].append(one.rsr)
    ratios = {name: rank_surprisal_ratio(pairs) for name, pairs in held.items()}
    order = sorted(ratios, key=lambda name: (ratios[name], name))

    def decide(one: Candidate) -> Decision:
        name = str(getattr(one, by))
        if one.rsr is None:
            return Decision(False, "the student did not read it: name one with --student")
        place = order.index(name) + 1
        return Decision(place <= most, f"teacher {name} has RSR {ratios[name]:.2f}, place {place} of {len(order)}")

    return [decide(one) for one in candidates]
