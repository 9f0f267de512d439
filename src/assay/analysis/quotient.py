"""Quotient graph of many attempts at one task: equivalent acts with the same outcome are one node.

After TopoCurate (arXiv 2603.01714), which merges equivalent states of action and observation and selects training data
from the result; its formulas are not published, so the measures are ours. A node is a class of acts
(`states.equivalent`) with their outcome (`outcomes.outcome_of`); an edge is a transition of some attempt. Classes form
in the attempts' order: a state joins the first class whose first member is equivalent.

Misleading: merging drops the order, so a cycle in the graph need not be a cycle in any attempt.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import msgspec

from .interface import Action
from .outcomes import outcome_of
from .prefix_tree import information_gain
from .states import State, block, equivalent, states_of

START = 0


class QuotientNode(msgspec.Struct):
    """A class of acts. Only `quotient_graph` changes it."""

    state: State | None
    """First member; None for node 0, the start."""
    outcome: str
    visits: int = 0
    attempts: int = 0
    passed: int = 0
    failed: int = 0
    """Numbers of visiting attempts: all, passed and failed ones."""

    def describe(self) -> str:
        """Returns the first member's act in one line."""
        if self.state is None:
            return "the beginning"
        words = self.state.what if self.state.kind == "shell" else " ".join((self.state.tool, self.state.file))
        return " ".join(words.split())[:120] + (f" [{self.outcome}]" if self.is_error else "")

    @property
    def is_error(self) -> bool:
        """Returns whether the acts ended in an error."""
        return self.outcome.startswith("error")


class Edge(msgspec.Struct):
    """Transition between classes. Only `quotient_graph` changes it."""

    first: int
    second: int
    times: int = 0
    passed: int = 0
    failed: int = 0
    """Numbers of attempts that took it."""


class Quotient(msgspec.Struct, frozen=True):
    """The graph, and each attempt's walk without the start."""

    nodes: tuple[QuotientNode, ...]
    edges: tuple[Edge, ...]
    walks: tuple[tuple[int, ...], ...]
    outcomes: tuple[bool | None, ...]


class Bifurcation(msgspec.Struct, frozen=True):
    """A class after which the next act is informative about the outcome."""

    node: int
    attempts: int
    """Number of attempts with known outcome."""
    gain: float
    """Information in bits, in [0, 1], of each attempt's first visit."""
    branches: dict[int, tuple[int, int]]
    """Next node (-1: the attempt ends) to passed and failed attempts."""


class _Classes:
    def __init__(self) -> None:
        self.nodes = [QuotientNode(None, "")]
        self._exact: dict[tuple[State, str], int] = {}
        self._alike: dict[Hashable, list[int]] = {}

    def number(self, state: State, outcome: str) -> int:
        found = self._exact.get((state, outcome))
        if found is None:
            bucket = self._alike.setdefault((block(state), outcome), [])
            found = next((n for n in bucket if equivalent(_state_of(self.nodes[n]), state)), None)
            if found is None:
                found = len(self.nodes)
                self.nodes.append(QuotientNode(state, outcome))
                bucket.append(found)
            self._exact[state, outcome] = found
        return found


def _state_of(node: QuotientNode) -> State:
    assert node.state is not None, "only the beginning has no state"
    return node.state


def quotient_graph(
    attempts: Sequence[Sequence[Action]],
    outcomes: Sequence[bool | None],
    states: Sequence[Sequence[State]] | None = None,
) -> Quotient:
    """Builds the graph of all attempts; None stands for an unknown outcome, and `states` saves computing them again.

    Raises:
        ValueError: The lengths differ.
    """
    held = [states_of(each) for each in attempts] if states is None else states
    return quotient_of(held, [[outcome_of(action) for action in each] for each in attempts], outcomes)


def quotient_of(
    states: Sequence[Sequence[State]], came: Sequence[Sequence[str]], outcomes: Sequence[bool | None]
) -> Quotient:
    """Builds the graph from states and outcomes of acts (`outcomes.outcome_of`), without the actions in memory.

    Raises:
        ValueError: The lengths differ.
    """
    classes = _Classes()
    edges: dict[tuple[int, int], Edge] = {}
    walks = []
    for of, words, outcome in zip(states, came, outcomes, strict=True):
        walk = [classes.number(state, word) for state, word in zip(of, words, strict=True)]
        taken = list(pairwise([START, *walk]))
        for pair in taken:
            edges.setdefault(pair, Edge(*pair)).times += 1
        for number in walk:
            classes.nodes[number].visits += 1
        for number in {START, *walk}:
            node = classes.nodes[number]
            node.attempts += 1
            node.passed += outcome is True
            node.failed += outcome is False
        for pair in set(taken):
            edges[pair].passed += outcome is True
            edges[pair].failed += outcome is False
        walks.append(tuple(walk))
    return Quotient(tuple(classes.nodes), tuple(edges.values()), tuple(walks), tuple(outcomes))


def semantic_efficiency(graph: Quotient, attempt: int) -> float:
    """Returns distinct classes over acts of one attempt, in [0, 1]; 1 without repetition or acts. Ours."""
    walk = graph.walks[attempt]
    return len(set(walk)) / len(walk) if walk else 1.0


def bifurcations(graph: Quotient) -> tuple[Bifurcation, ...]:
    """Returns classes with several successors by decreasing information about the outcome."""
    branches: dict[int, dict[int, tuple[int, int]]] = {}
    for walk, outcome in zip(graph.walks, graph.outcomes, strict=True):
        if outcome is None:
            continue
        seen: set[int] = set()
        for first, second in pairwise([START, *walk, -1]):
            if first in seen:
                continue
            seen.add(first)
            passed, failed = branches.setdefault(first, {}).get(second, (0, 0))
            branches[first][second] = (passed + outcome, failed + (not outcome))
    found = [
        Bifurcation(node, sum(map(sum, each.values())), information_gain(list(each.values())), each)
        for node, each in branches.items()
        if len(each) > 1
    ]
    return tuple(sorted(found, key=lambda each: (-each.gain * each.attempts, each.node)))
