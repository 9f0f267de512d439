"""Diverse attempts for each task, by the moves they take in the graph of all attempts at it.

After TopoCurate, arXiv 2603.01714, which wants strategies to differ over its quotient graph (no formula published); the
graph is `analysis.quotient`, the greedy choice ours: first the shortest, then whichever is farthest from all that are
chosen (Gonzalez 1985), by the Jaccard distance of their sets of moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .interface import AttemptCandidate, Selection


def diversity(candidates: Sequence[AttemptCandidate], *, most: int = 4, at_least: float = 0.0) -> list[Selection]:
    """Keeps at most `most` attempts a task, each at least `at_least` from all others that are kept."""
    if most < 1 or not 0 <= at_least <= 1:
        raise ValueError(f"most must be 1 or more and at_least lie in [0, 1]; got {most} and {at_least}")
    tasks: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(candidates):
        tasks[one.task].append(number)
    found = [Selection(False, "")] * len(candidates)
    for numbers in tasks.values():
        for number, decision in zip(numbers, _of_task([candidates[n] for n in numbers], most, at_least), strict=True):
            found[number] = decision
    return found


def _of_task(candidates: Sequence[AttemptCandidate], most: int, at_least: float) -> list[Selection]:
    first = min(range(len(candidates)), key=lambda n: (candidates[n].acts, n))
    found = [Selection(False, f"{most} attempts at its task are kept that differ more")] * len(candidates)
    found[first] = Selection(True, f"the shortest of {len(candidates)} at its task ({candidates[first].acts} acts)")
    distances = move_distances(candidates, first)
    chosen = {first}
    while len(chosen) < min(most, len(candidates)):
        distances[list(chosen)] = -1.0
        best = int(np.argmax(distances))
        if distances[best] < at_least:
            break
        found[best] = Selection(True, f"distance {distances[best]:.2f} in moves from those kept before it")
        chosen.add(best)
        distances = np.minimum(distances, move_distances(candidates, best))
    if len(chosen) < most:
        for number in set(range(len(candidates))) - chosen:
            found[number] = Selection(
                False, f"distance {max(distances[number], 0):.2f} in moves, wanted at least {at_least}"
            )
    return found


def move_distances(candidates: Sequence[AttemptCandidate], one: int) -> NDArray[np.float64]:
    """Returns the Jaccard distance [N] of each candidate's moves to those of `one`."""
    moves = set(candidates[one].moves)
    found = np.zeros(len(candidates))
    for number, other in enumerate(candidates):
        union = len(moves.union(other.moves))
        found[number] = 1 - len(moves.intersection(other.moves)) / union if union else 0.0
    return found
