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

import msgspec
import numpy as np
from numpy.typing import NDArray

from .alignment import Pair, align
from .stages import STAGES, Stage
from .states import State, block, equivalent


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
    rows, columns = _numbered(attempt), _numbered(path)
    blocks: dict[Hashable, list[tuple[State, int]]] = {}
    for state, number in columns.items():
        blocks.setdefault(block(state), []).append((state, number))
    distinct = np.zeros((len(rows), len(columns)), dtype=np.bool_)
    for state, row in rows.items():
        for other, column in blocks.get(block(state), ()):
            distinct[row, column] = equivalent(state, other)
    which = [
        np.array([of[state] for state in states], dtype=np.int64) for of, states in ((rows, attempt), (columns, path))
    ]
    return np.asarray(distinct[which[0][:, None], which[1]])


def _numbered(states: Sequence[State]) -> dict[State, int]:
    numbers: dict[State, int] = {}
    for state in states:
        numbers.setdefault(state, len(numbers))
    return numbers


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
