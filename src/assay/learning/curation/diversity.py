"""Few attempts a task that differ most: by the moves they take in the graph of all attempts at it.

After TopoCurate, arXiv 2603.01714, which wants strategies to differ over its quotient graph (no formula published); the
graph is `analysis.quotient`, the greedy choice ours: first the shortest, then whichever is farthest from all that are
chosen (Gonzalez 1985), by the Jaccard distance of their sets of moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .interface import Candidate, Decision

__all__ = ["diversity", "move_distances"]


def diversity(candidates: Sequence[Candidate], *, most: int = 4, at_least: float = 0.0) -> list[Decision]:
    """Keeps at most `most` attempts a task, each at least `at_least` from all others that are kept.

    Args:
        candidates: What is decided about.
        most: Attempts a task.
        at_least: Least Jaccard distance, in [0, 1].
    """
    if most < 1 or not 0 <= at_least <= 1:
        raise ValueError(f"most must be 1 or more and at_least lie in [0, 1]; got {most} and {at_least}")
    tasks: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(candidates):
        tasks[one.task].append(number)
    found = [Decision(False, "")] * len(candidates)
    for numbers in tasks.values():
        for number, decision in zip(numbers, _of_task([candidates[n] for n in numbers], most, at_least), strict=True):
            found[number] = decision
    return found


def _of_task(held: Sequence[Candidate], most: int, at_least: float) -> list[Decision]:
    first = min(range(len(held)), key=lambda n: (held[n].acts, n))
    found = [Decision(False, f"{most} attempts at its task are kept that differ more")] * len(held)
    found[first] = Decision(True, f"the shortest of {len(held)} at its task ({held[first].acts} acts)")
    near = move_distances(held, first)
    chosen = {first}
    while len(chosen) < min(most, len(held)):
        near[list(chosen)] = -1.0
        best = int(np.argmax(near))
        if near[best] < at_least:
            break
        found[best] = Decision(True, f"distance {near[best]:.2f} in moves from those kept before it")
        chosen.add(best)
        near = np.minimum(near, move_distances(held, best))
    if len(chosen) < most:
        for number in set(range(len(held))) - chosen:
            found[number] = Decision(False, f"distance {max(near[number], 0):.2f} in moves, wanted at least {at_least}")
    return found


def move_distances(held: Sequence[Candidate], one: int) -> NDArray[np.float64]:
    """Jaccard distance [N] of the moves of each to those of `one`; 0 between two that make none."""
    moves = set(held[one].moves)
    found = np.zeros(len(held))
    for number, other in enumerate(held):
        union = len(moves.union(other.moves))
        found[number] = 1 - len(moves.intersection(other.moves)) / union if union else 0.0
    return found
