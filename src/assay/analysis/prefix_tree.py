"""Many attempts at one task as one tree of what they share: a prefix tree acceptor.

The root is the beginning; a node stands for all attempts that came to it by equivalent acts in the same order. Where
attempts part, the tree forks; an attempt accepted is a path from the root to a node at which an attempt ended.
After AgentLens (arXiv 2605.12925), which merges equivalent states across positions too and so makes a graph; a tree
keeps the order of acts whole (`assay.analysis.quotient` is the graph). Forks follow the bifurcation analysis of WebStep
(named in its abstract); the measure, information gain, is ours.

When it misleads: two acts in another order are two branches. A fork with few attempts gains information by chance:
`Fork.attempts` says how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence

import msgspec

from .states import State, block, equivalent

__all__ = ["Fork", "Node", "PrefixTree", "divergence", "forks", "information_gain", "paths", "prefix_tree"]

ROOT = 0


class Node(msgspec.Struct):
    """A place in the tree. Only `prefix_tree` changes it."""

    parent: int
    """-1 for the root."""
    depth: int
    """Acts from the root."""
    state: State | None
    """The first that came here; None for the root."""
    children: list[int]
    attempts: int = 0
    """How many came through."""
    passed: int = 0
    failed: int = 0
    """How many of them, where it is known."""
    ended: int = 0
    """How many ended here."""

    @property
    def rate(self) -> float | None:
        """Share that passed of those whose outcome is known."""
        known = self.passed + self.failed
        return self.passed / known if known else None


class PrefixTree(msgspec.Struct, frozen=True):
    """Nodes by number, the root first, parents before children, and each attempt's way through them."""

    nodes: tuple[Node, ...]
    walks: tuple[tuple[int, ...], ...]
    """Of each attempt: the nodes after the root, one for each act."""
    outcomes: tuple[bool | None, ...]


class Fork(msgspec.Struct, frozen=True):
    """Where attempts part and outcomes with them."""

    node: int
    depth: int
    attempts: int
    """Whose outcome is known."""
    gain: float
    """Bits that the branch taken tells about the outcome, in [0, 1]."""
    branches: tuple[int, ...]
    """Nodes; an attempt that ended here took none."""


def prefix_tree(
    attempts: Sequence[Sequence[State]],
    outcomes: Sequence[bool | None],
    same: Callable[[State, State], bool] = equivalent,
) -> PrefixTree:
    """The tree of all attempts, in the order given: a state joins the first child that it is equivalent to.

    Args:
        attempts: The states of each.
        outcomes: Of each: passed, failed, or None where it is not known.
        same: Whether two states are one. It is asked about states of one `block` alone.

    Raises:
        ValueError: There are not as many outcomes as attempts.
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


def paths(tree: PrefixTree) -> Iterator[tuple[State, ...]]:
    """Every way from the root to a node at which an attempt ended, by number of that node."""
    for node in tree.nodes:
        if node.ended:
            way: list[State] = []
            at = node
            while at.parent >= 0:
                way.append(_state_of(at))
                at = tree.nodes[at.parent]
            yield tuple(reversed(way))


def divergence(tree: PrefixTree, attempt: int) -> int | None:
    """The first act after which an attempt is on no way by which another attempt passed; None where it always is."""
    own = int(tree.outcomes[attempt] is True)
    for position, number in enumerate(tree.walks[attempt]):
        if tree.nodes[number].passed - own <= 0:
            return position
    return None


def forks(tree: PrefixTree) -> tuple[Fork, ...]:
    """Nodes where ways part, those that tell most about the outcome first."""
    found = []
    for number, node in enumerate(tree.nodes):
        if len(node.children) + bool(node.ended) < 2:
            continue
        branches = [(tree.nodes[child].passed, tree.nodes[child].failed) for child in node.children]
        stayed = node.passed - sum(each[0] for each in branches), node.failed - sum(each[1] for each in branches)
        gain = information_gain([*branches, stayed])
        found.append(Fork(number, node.depth, node.passed + node.failed, gain, tuple(node.children)))
    return tuple(sorted(found, key=lambda each: (-each.gain * each.attempts, each.node)))


def information_gain(branches: Sequence[tuple[int, int]]) -> float:
    """Bits about a yes or no that the branch tells, from counts of yes and no in each branch.

    What as many branches would seem to tell by chance is taken off (Miller 1955, to the first order), so a fork at
    which every attempt goes a way of its own tells little. In [0, 1].
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
