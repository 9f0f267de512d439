"""Racing of candidates on the same tasks, part after part: pure.

After Hoeffding races (Maron and Moore 1994) and F-Race (Birattari et al. 2002), with the exact paired permutation test
of the gate in place of Hoeffding's bound, which needs hundreds of tasks. A candidate is dropped where another one
passes more: each pair at each look has an equal share of the level. By the union bound over the pairs and looks in
which it takes part, a candidate to which no other is superior is dropped with a chance of at most the level, whatever
the number of candidates and looks. The race only narrows a search; it accepts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.statistics import SequentialTest, score_tasks


class Dropped(NamedTuple):
    """A candidate that left the race, and the one that beat it most clearly."""

    loser: str
    winner: str


class Race:
    """One race.

    Args:
        candidates: Their names, in the order that decides ties.
        attempts: Attempts at each task.
        looks: Planned looks.
        level: Chance that a candidate to which no other is superior is dropped, at most.
    """

    def __init__(self, candidates: Sequence[str], *, attempts: int, looks: int, level: float) -> None:
        self.left = list(candidates)
        self._passes: dict[str, list[int]] = {name: [] for name in candidates}
        self._attempts = attempts
        self._share = level / (looks * max(1, len(candidates) - 1))

    def look(self, passes: Mapping[str, Sequence[int]]) -> list[Dropped]:
        """Adds the passes at further tasks of each candidate that is left, and drops those that are behind."""
        for name in self.left:
            self._passes[name].extend(passes[name])
        dropped = []
        for name in self.left:
            others = [(self._p_value(other, name), other) for other in self.left if other != name]
            p_value, winner = min(others, default=(1.0, ""))
            if p_value <= self._share:
                dropped.append(Dropped(name, winner))
        for one in dropped:
            self.left.remove(one.loser)
        return dropped

    def best(self) -> str:
        """Returns the candidate with the most passes of those that are left, the first of equals."""
        return max(self.left, key=lambda name: sum(self._passes[name]))

    def _p_value(self, better: str, worse: str) -> float:
        """Returns the one-sided p-value of the hypothesis that a candidate is not superior to another."""
        ours, theirs = self._passes[better], self._passes[worse]
        if sum(ours) <= sum(theirs):
            return 1.0
        test = SequentialTest(self._share, len(ours))
        return test.look(score_tasks(ours, [theirs], self._attempts)).p_value
