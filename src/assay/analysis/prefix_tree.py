"""Prefix tree of many attempts at one task.

A node stands for all attempts that reached it by equivalent acts in the same order. AgentLens (arXiv 2605.12925) merges
equivalent states across positions into a graph; a tree keeps the order (`assay.analysis.quotient` is the graph, and
its `bifurcations` are where attempts and their outcomes part).

Misleading: reordered acts are two branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import msgspec

from .states import State, block, equivalent

ROOT = 0


class Node(msgspec.Struct):
    """Node of the tree. Only `prefix_tree` changes it."""

    parent: int
    """-1 for the root."""
    depth: int
    """Acts from the root."""
    state: State | None
    """State of the first attempt here; None for the root."""
    children: list[int]
    attempts: int = 0
    """Number of attempts through the node."""
    passed: int = 0
    failed: int = 0
    """Number of failed ones, by known outcome."""
    ended: int = 0
    """Number of attempts that ended here."""

    @property
    def rate(self) -> float | None:
        """Returns the pass rate of those with known outcome."""
        known = self.passed + self.failed
        return self.passed / known if known else None


class PrefixTree(msgspec.Struct, frozen=True):
    """Nodes by number, the root first, parents before children, and each attempt's path."""

    nodes: tuple[Node, ...]
    walks: tuple[tuple[int, ...], ...]
    """Nodes of each attempt after the root, one per act."""
    outcomes: tuple[bool | None, ...]


def prefix_tree(
    attempts: Sequence[Sequence[State]],
    outcomes: Sequence[bool | None],
    same: Callable[[State, State], bool] = equivalent,
) -> PrefixTree:
    """Builds the tree of all attempts, in the given order: a state joins the first child that is the `same`, by default
    equivalent and of one `block`. None stands for an unknown outcome.

    Raises:
        ValueError: The numbers of outcomes and attempts differ.
    """
    nodes = [Node(-1, 0, None, [])]
    # Children by what equivalent states must share; what was found equivalent once is not asked again.
    exact: list[dict[State, int]] = [{}]
    alike: list[dict[Hashable, list[int]]] = [{}]
    walks = []
    for states, outcome in zip(attempts, outcomes, strict=True):
        at, walk = ROOT, []
        _count(nodes[ROOT], outcome)
        for state in states:
            found = exact[at].get(state)
            if found is None:
                found = next((n for n in alike[at].get(block(state), ()) if same(_state_of(nodes[n]), state)), None)
                if found is None:
                    found = len(nodes)
                    nodes.append(Node(at, nodes[at].depth + 1, state, []))
                    exact.append({})
                    alike.append({})
                    nodes[at].children.append(found)
                    alike[at].setdefault(block(state), []).append(found)
                exact[at][state] = found
            at = found
            walk.append(at)
            _count(nodes[at], outcome)
        nodes[at].ended += 1
        walks.append(tuple(walk))
    return PrefixTree(tuple(nodes), tuple(walks), tuple(outcomes))


def _state_of(node: Node) -> State:
    assert node.state is not None, "only the root has no state"
    return node.state


def _count(node: Node, outcome: bool | None) -> None:  # noqa: FBT001 - a value, not a switch
    node.attempts += 1
    node.passed += outcome is True
    node.failed += outcome is False


def divergence(tree: PrefixTree, attempt: int) -> int | None:
    """Returns the position of an attempt's first act that is not on a path of another passing attempt.

    None if all acts are, or no other attempt passed.
    """
    own = int(tree.outcomes[attempt] is True)
    if tree.outcomes.count(True) == own:
        return None
    for position, number in enumerate(tree.walks[attempt]):
        if tree.nodes[number].passed - own <= 0:
            return position
    return None


def information_gain(branches: Sequence[tuple[int, int]]) -> float:
    """Returns the bits about a binary outcome in the branch, from the counts of both outcomes per branch, in [0, 1].

    Corrected for the first-order bias of the estimate (Miller 1955), so a fork with one attempt per branch gains
    little.
    """
    total = sum(map(sum, branches))
    if not total:
        return 0.0
    after = sum(sum(each) / total * _entropy(*each) for each in branches)
    before = _entropy(sum(each[0] for each in branches), sum(each[1] for each in branches))
    chance = (sum(map(any, branches)) - 1) / (2 * total * math.log(2))
    return max(before - after - chance, 0.0)


def _entropy(yes: int, no: int) -> float:
    total = yes + no
    return -sum(count / total * math.log2(count / total) for count in (yes, no) if count)
