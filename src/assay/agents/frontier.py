"""Frontier of a best-first search: open nodes by cost, states that were seen, and a budget of tried acts.

`best-first` (worlds that list their acts), `page-search` (pages) and `page-planner` (a map of remembered pages) search
with it. A node is whatever the search needs to go on from a state; the frontier never looks into one. An act whose
words say that it cannot be taken back is marked by `is_irreversible`; a search that would do it for good refuses it,
and counts the refusal.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

_IRREVERSIBLE: Final = re.compile(
    r"\b(send|submit|pay|buy|order|place|book|delete|close|begin anew|transfer|cancel)\b", re.IGNORECASE
)

N = TypeVar("N")


def is_irreversible(words: str) -> bool:
    """Returns whether the words of an act, such as the label of a button or the name of a tool, say that it cannot be
    taken back."""
    return bool(_IRREVERSIBLE.search(words.replace("_", " ")))


class Frontier(Generic[N]):
    """Open nodes of one search, and its statistics.

    Args:
        acts: Maximum number of acts that may be tried.
        open_nodes: Maximum number of nodes that are kept; None for no limit.
    """

    def __init__(self, acts: int, open_nodes: int | None = None) -> None:
        self._most, self._open_nodes = acts, open_nodes
        self._heap: list[tuple[float, float, int, N]] = []
        self._pushed = 0
        self._seen = set[Hashable]()
        self._acts = self._merged = self._failed = self._irreversible = self._dropped = 0

    def __bool__(self) -> bool:
        """Returns whether the search may go on: a node is open, and the budget is not used up."""
        return bool(self._heap) and self.has_budget

    @property
    def has_budget(self) -> bool:
        """True if another act may be tried."""
        return self._acts < self._most

    def push(self, node: N, cost: float, tie: float = 0.0) -> N | None:
        """Adds a node.

        Args:
            node: The node.
            cost: Nodes of the lowest cost come first.
            tie: Order among equal costs; then the earliest comes first.

        Returns:
            The node of the highest cost, which is dropped because too many are open; None if none is.
        """
        self._pushed += 1
        heapq.heappush(self._heap, (cost, tie, self._pushed, node))
        if self._open_nodes is None or len(self._heap) <= self._open_nodes:
            return None
        worst = max(self._heap)
        self._heap.remove(worst)
        heapq.heapify(self._heap)
        self._dropped += 1
        return worst[-1]

    def pop(self) -> N:
        """Takes the node of the lowest cost. Raises `IndexError` if none is open."""
        return heapq.heappop(self._heap)[-1]

    def count_act(self, words: str) -> None:
        """Takes an act from the budget, and marks it if its words say that it cannot be taken back."""
        self._acts += 1
        self._irreversible += is_irreversible(words)

    def count_failure(self) -> None:
        """Counts an act that failed."""
        self._failed += 1

    def enter(self, state: Hashable) -> bool:
        """Returns whether a state is new. One that is not counts as merged with the earlier one."""
        if state in self._seen:
            self._merged += 1
            return False
        self._seen.add(state)
        return True

    def statistics(self) -> dict[str, int]:
        """Returns what the search did, for evidence of kind `search`."""
        return {
            "acts": self._acts,
            "states": len(self._seen),
            "merged": self._merged,
            "failed": self._failed,
            "irreversible": self._irreversible,
            "dropped": self._dropped,
        }
