"""Coverage of a reference solution by an attempt, and vice versa.

After AgentLens (arXiv 2605.12925). A reference is a set of paths (one passing attempt, or paths through several merged
ones); the best covered path counts. The published greedy matching stops at the first unmatched state of the path and
loses the rest; here the longest common subsequence is used.

Range: [0, 1]. Misleading for a reference of few acts, and for other good solutions. Exclude the attempt itself from its
references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ._memo import cached_by_identity
from .alignment import Pair, align
from .stages import STAGES, Stage
from .states import ATTEMPTS, State, block, equivalent


class Coverage(msgspec.Struct, frozen=True):
    """Coverage of the best of the given paths."""

    path: int
    pairs: tuple[Pair, ...]
    """Matched positions of the attempt and of the path."""
    coverage: float
    """Matched portion of the path."""
    precision: float
    """Matched portion of the attempt."""
    stages: dict[Stage, float]
    """Matched portion of each stage of the path."""

    @property
    def f1(self) -> float:
        """Returns the harmonic mean of coverage and precision."""
        both = self.coverage + self.precision
        return 2 * self.coverage * self.precision / both if both else 0.0

    @property
    def completeness(self) -> float:
        """Returns the portion of the path's stages with any match."""
        return sum(share > 0 for share in self.stages.values()) / len(self.stages) if self.stages else 1.0


def matches(attempt: Sequence[State], path: Sequence[State]) -> NDArray[np.bool_]:
    """Returns state equivalence, of shape (len(attempt), len(path))."""
    rows, columns = _distinct(tuple(attempt)), _distinct(tuple(path))
    distinct = np.zeros((rows.size, columns.size), dtype=np.bool_)
    for key, states in rows.blocks.items():
        others = columns.blocks.get(key, ())
        for state, row in states:
            for other, column in others:
                distinct[row, column] = equivalent(state, other)
    return np.asarray(distinct[rows.numbers[:, None], columns.numbers])


class _Distinct(NamedTuple):
    """The distinct states of an attempt, numbered by first occurrence."""

    size: int
    numbers: NDArray[np.int64]
    """Of each state of the attempt, in order."""
    blocks: dict[Hashable, list[tuple[State, int]]]
    """The distinct states with their numbers, by `block`."""


@cached_by_identity(ATTEMPTS)
def _distinct(states: tuple[State, ...]) -> _Distinct:
    numbers: dict[State, int] = {}
    order = [numbers.setdefault(state, len(numbers)) for state in states]
    blocks: dict[Hashable, list[tuple[State, int]]] = {}
    for state, number in numbers.items():
        blocks.setdefault(block(state), []).append((state, number))
    return _Distinct(len(numbers), np.array(order, dtype=np.int64), blocks)


def cover(attempt: Sequence[State], paths: Sequence[Sequence[State]]) -> Coverage:
    """Returns the coverage of the best covered path; ties go to the longest, then the first.

    Raises:
        ValueError: No path is given.
    """
    if not paths:
        raise ValueError("coverage needs a reference path to compare with")
    tried = [_against(attempt, path, number) for number, path in enumerate(paths)]
    return max(tried, key=lambda each: (each.coverage, len(paths[each.path]), -each.path))


def _against(attempt: Sequence[State], path: Sequence[State], number: int) -> Coverage:
    pairs = align(matches(attempt, path))
    held = Counter(state.stage for state in path)
    matched = Counter(path[pair.right].stage for pair in pairs)
    return Coverage(
        path=number,
        pairs=pairs,
        coverage=len(pairs) / len(path) if path else 0.0,
        precision=len(pairs) / len(attempt) if attempt else 0.0,
        stages={stage: matched[stage] / held[stage] for stage in STAGES if held[stage]},
    )
