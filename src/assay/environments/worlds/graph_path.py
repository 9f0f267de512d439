"""Cheapest path in a weighted graph, computed from the shown edges or explored if they are hidden."""

from __future__ import annotations

import heapq
import itertools
import random
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Rules, WorldConfig


class GraphPathConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `graph-path`. `turns` 0 means the number of nodes plus three."""

    nodes: Annotated[int, Meta(ge=3, le=200)] = 8
    extra: Annotated[int, Meta(ge=0, le=2000)] = 5
    """Edges beyond a spanning tree."""
    largest: Annotated[int, Meta(ge=1, le=1000)] = 9
    """Largest weight of an edge."""
    hidden: bool = False
    """True if edges are seen only by looking at a node."""


class _Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the edges of a node and their weights."""

    node: str


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give a cheapest path: all of its nodes, in order. A wrong answer ends it."""

    path: Annotated[list[str], Meta(min_length=1, max_length=200)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    cost: int | None = None
    """Cost of the given path; None before an answer and for an invalid path."""
    looked: list[int] = []
    """Nodes of a hidden graph already looked at, sorted: the agent's knowledge."""


class GraphPath(Rules[GraphPathConfig, _Now]):
    """Cheapest path world."""

    name: ClassVar[str] = "graph-path"
    WorldConfig = GraphPathConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"look": _Look, "answer": _Answer}

    def generate(self, draw: random.Random) -> None:
        config = self.config
        self._names = tuple(f"n{number}" for number in range(config.nodes))
        order = draw.sample(range(config.nodes), config.nodes)
        pairs = {tuple(sorted((order[at], order[draw.randrange(at)]))) for at in range(1, config.nodes)}
        for _ in range(4 * config.extra):
            if len(pairs) >= config.nodes - 1 + config.extra:
                break
            pairs.add(tuple(sorted(draw.sample(range(config.nodes), 2))))
        edges = {(one, other): draw.randint(1, config.largest) for one, other in sorted(pairs)}
        self._start, self._goal = draw.sample(range(config.nodes), 2)
        if not config.solvable:
            side = {self._start} | {n for n in range(config.nodes) if n != self._goal and draw.random() < 0.5}
            edges = {pair: weight for pair, weight in edges.items() if (pair[0] in side) == (pair[1] in side)}
        self._edges: dict[int, dict[int, int]] = {number: {} for number in range(config.nodes)}
        for (one, other), weight in edges.items():
            self._edges[one][other] = self._edges[other][one] = weight
        self._best = _cheapest(self._edges, self._start, self._goal)
        self.limit = config.turns or config.nodes + 3
        self.now = _Now()

    def brief(self) -> str:
        return "Find a cheapest path in the graph; edges lead both ways, and a path costs the sum of its weights."

    def render(self) -> str:
        wanted = f"from {self._names[self._start]} to {self._names[self._goal]}"
        if self.config.hidden:
            return f"nodes {' '.join(self._names)}\n{wanted}"
        lines = [
            f"{self._names[one]}-{self._names[other]} {weight}"
            for one, near in self._edges.items()
            for other, weight in sorted(near.items())
            if one < other
        ]
        return f"edges {', '.join(lines)}\n{wanted}"

    def do_look(self, given: _Look) -> Turn:
        if given.node not in self._names:
            return Turn(f"there is no node {given.node[:40]!r}", error=True)
        node = self._names.index(given.node)
        if self.config.hidden and node not in self.now.looked:
            self.now.looked = sorted([*self.now.looked, node])
        near = self._edges[node]
        found = ", ".join(f"{self._names[other]} {weight}" for other, weight in sorted(near.items()))
        return Turn(f"{given.node}: {found or 'no edges'}")

    def do_answer(self, given: _Answer) -> Turn:
        self.now.cost = cost = self._cost_of(given.path)
        if cost is None:
            return Turn("wrong: that is no path between the two", 0.0, True)
        if self.solved():
            return Turn(f"right: it costs {cost}", 1.0, True)
        return Turn(f"wrong: it costs {cost}, and there is a cheaper one", 0.0, True)

    def _cost_of(self, path: list[str]) -> int | None:
        if not set(path) <= set(self._names):
            return None
        nodes = [self._names.index(name) for name in path]
        if nodes[0] != self._start or nodes[-1] != self._goal:
            return None
        weights = [self._edges[one].get(other) for one, other in itertools.pairwise(nodes)]
        return None if None in weights else sum(weight for weight in weights if weight is not None)

    def constants(self) -> Any:
        return [self._start, self._goal, [sorted(near.items()) for near in self._edges.values()]]

    def solved(self) -> bool:
        return self._best is not None and self.now.cost == self._best.cost

    def extra_facts(self) -> dict[str, Any]:
        cheapest, needed = (self._best.cost, self._needed()) if self._best is not None else (None, [])
        return {"cost": self.now.cost, "cheapest": cheapest, "shortest": len(needed) + 1}

    def _needed(self) -> list[int]:
        """Returns the nodes to look at, in order, before a cheapest path is certain."""
        return self._best.looked if self.config.hidden and self._best is not None else []

    def oracle(self) -> Act | None:
        """Answers at once; in a hidden graph it first looks from the start outwards, nearest node first."""
        if self.over or self._best is None:
            return None
        unknown = next((node for node in self._needed() if node not in self.now.looked), None)
        if unknown is not None:
            return "look", {"node": self._names[unknown]}
        return "answer", {"path": [self._names[node] for node in self._best.path]}

    def progress(self) -> float | None:
        """Returns the share of necessary looks, plus the answer, already done."""
        if self._best is None:
            return None
        needed = self._needed()
        return (sum(node in self.now.looked for node in needed) + self.solved()) / (len(needed) + 1)

    def choices(self) -> list[Act]:
        """Returns looks at every node, and the answer of the two ends."""
        if self.over:
            return []
        render: list[Act] = [("look", {"node": name}) for name in self._names[:98]]
        return [*render, ("answer", {"path": [self._names[self._start], self._names[self._goal]]})]


class _SearchResult(NamedTuple):
    cost: int
    path: list[int]
    looked: list[int]
    """Nodes whose edges the search needed, in its order."""


def _cheapest(edges: dict[int, dict[int, int]], start: int, goal: int) -> _SearchResult | None:
    """Runs Dijkstra's algorithm; None if the goal is unreachable."""
    heap, done = [(0, start, [start])], list[int]()
    while heap:
        cost, node, path = heapq.heappop(heap)
        if node == goal:
            return _SearchResult(cost, path, done)
        if node in done:
            continue
        done.append(node)
        for other, weight in edges[node].items():
            if other not in done:
                heapq.heappush(heap, (cost + weight, other, [*path, other]))
    return None
