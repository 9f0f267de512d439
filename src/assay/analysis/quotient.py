"""Many attempts at one task as one graph: equivalent acts that came to the same are one node, wherever they stand.

After TopoCurate (arXiv 2603.01714), which merges equivalent states of action and observation over many attempts and
picks from the result what to learn from; its formulas are not published, so the measures are ours and say so. A node
is a class of acts (`states.equivalent`) together with what they came to (`outcomes.outcome_of`); an edge is that some
attempt went from one to the other. Classes are formed in the order of the attempts: a state joins the first class
whose first member it is equivalent to.

When it misleads: merging takes away the order, so a cycle in the graph need not be a cycle in any attempt.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from .interface import Action
from .outcomes import outcome_of
from .prefix_tree import information_gain
from .states import State, block, equivalent, states_of

__all__ = ["Bifurcation", "Edge", "Quotient", "QuotientNode", "bifurcations", "error_branch_ratio", "quotient_graph",
           "quotient_of", "semantic_efficiency", "strategy_diversity"]  # fmt: skip

START = 0


class QuotientNode(msgspec.Struct):
    """A class. Only `quotient_graph` changes it."""

    state: State | None
    """Its first member; None for the beginning, which is node 0."""
    outcome: str
    visits: int = 0
    attempts: int = 0
    passed: int = 0
    failed: int = 0
    """Attempts that came here at least once; those that passed and failed, where it is known."""

    def describe(self) -> str:
        """Returns what its first member did, in a line."""
        if self.state is None:
            return "the beginning"
        words = self.state.what if self.state.kind == "shell" else " ".join((self.state.tool, self.state.file))
        return " ".join(words.split())[:120] + (f" [{self.outcome}]" if self.is_error else "")

    @property
    def is_error(self) -> bool:
        """Returns whether its acts came to an error."""
        return self.outcome.startswith("error")


class Edge(msgspec.Struct):
    """From one class to the next. Only `quotient_graph` changes it."""

    first: int
    second: int
    times: int = 0
    passed: int = 0
    failed: int = 0
    """Attempts that took it at least once."""


class Quotient(msgspec.Struct, frozen=True):
    """The graph, and each attempt's walk through it, the beginning left out."""

    nodes: tuple[QuotientNode, ...]
    edges: tuple[Edge, ...]
    walks: tuple[tuple[int, ...], ...]
    outcomes: tuple[bool | None, ...]


class Bifurcation(msgspec.Struct, frozen=True):
    """A class after which what is done next tells about the outcome."""

    node: int
    attempts: int
    """Whose outcome is known."""
    gain: float
    """Bits, in [0, 1], from the first time that each attempt comes here."""
    branches: dict[int, tuple[int, int]]
    """Next node (-1: the attempt ends) to attempts that passed and failed."""


class _Classes:
    """Numbers of classes by state and outcome."""

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
    """The graph of all attempts.

    Args:
        attempts: The actions of each.
        outcomes: Of each: passed, failed, or None where it is not known.
        states: Of each, where they are known already.

    Raises:
        ValueError: The lengths differ.
    """
    held = [states_of(each) for each in attempts] if states is None else states
    return quotient_of(held, [[outcome_of(action) for action in each] for each in attempts], outcomes)


def quotient_of(
    states: Sequence[Sequence[State]], came: Sequence[Sequence[str]], outcomes: Sequence[bool | None]
) -> Quotient:
    """The same from states and what each act came to (`outcomes.outcome_of`): for who cannot hold all actions.

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


def error_branch_ratio(graph: Quotient) -> float | None:
    """Of the branches at classes where ways part, the share by which no attempt passed. Ours.

    In [0, 1]; None where ways never part among attempts whose outcome is known. A task of which it is high punishes
    wrong turns; at 0 every turn can still be put right.
    """
    leaving: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        if edge.passed + edge.failed:
            leaving.setdefault(edge.first, []).append(edge)
    branches = [edge for each in leaving.values() if len(each) > 1 for edge in each]
    return sum(edge.passed == 0 for edge in branches) / len(branches) if branches else None


def strategy_diversity(graph: Quotient, *, passing: bool = True) -> float | None:
    """Mean Jaccard distance of the sets of edges that two attempts take, over all pairs. Ours.

    In [0, 1]: 0 where all do the same, 1 where no two share a move. None for fewer than two attempts. With `passing`,
    attempts that are known to have passed alone.
    """
    walks = [w for w, outcome in zip(graph.walks, graph.outcomes, strict=True) if outcome is True or not passing]
    if len(walks) < 2:
        return None
    codes: dict[tuple[int, int], int] = {}
    taken = [{codes.setdefault(pair, len(codes)) for pair in pairwise([START, *walk])} for walk in walks]
    held = np.zeros((len(walks), max(len(codes), 1)), dtype=np.float32)
    for row, edges in enumerate(taken):
        held[row, sorted(edges)] = 1.0
    common = held @ held.T
    sizes = held.sum(axis=1)
    union = sizes[:, None] + sizes[None, :] - common
    distance = 1.0 - np.divide(common, union, out=np.ones_like(common), where=union > 0)
    upper = np.triu_indices(len(walks), k=1)
    return float(distance[upper].mean())


def semantic_efficiency(graph: Quotient, attempt: int) -> float:
    """Distinct classes over acts of one attempt, in [0, 1]; 1 where nothing is done twice, or nothing at all. Ours."""
    walk = graph.walks[attempt]
    return len(set(walk)) / len(walk) if walk else 1.0


def bifurcations(graph: Quotient) -> tuple[Bifurcation, ...]:
    """Classes after which attempts go different ways, those that tell most about the outcome first."""
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
