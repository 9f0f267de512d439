"""Walks over the pages of a world, as one tree: a page that several walks share is played once.

At each page a bounded number of acts is drawn (`WalkActs`): links, and forms filled in with what stands on the pages so
far and with what people know by heart, never with generated identifiers that no page showed. An act that leads to a
state and page that are in the tree leads to that node. A branch is pruned where it ends in a refusal, and where
`read_effect` says that what it has done so far means nothing, so that no longer walk is built on it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from assay.environments.services.plans import outcome_key
from assay.environments.services.world import ServiceWorld

from .page_client import PageContent, PageReader, SavedPage

WIDTH: Final = 6
"""Acts that are drawn at a page."""
FILLINGS: Final = 4
"""Times that a form is filled in, each of which is an act."""
DEPTH: Final = 14
"""Acts of a walk."""
Seen = frozenset[tuple[str, str]]
"""Values that pages of the way here showed and that forms ask for: kind and value."""


class Act(NamedTuple):
    """A step of a walk: a link, or a form with texts."""

    address: str
    texts: tuple[tuple[str, str], ...] | None = None
    """None for a link."""


class Figures(NamedTuple):
    """Counts of a tree."""

    walks: int
    walked: int
    """Acts of all walks."""
    played: int
    """Acts that were carried out: the others led over nodes that were in the tree."""
    nodes: int
    merged: int
    """Acts that led to a node which another act had led to."""
    pruned: Mapping[str, int]
    """Branches that were pruned, by reason."""

    @property
    def saved(self) -> float:
        """Share of the acts that sharing saved."""
        return 1 - self.played / self.walked if self.walked else 0.0


class WalkActs(Protocol):
    """Acts of walks on the pages of a world."""

    def seen_on(self, content: PageContent) -> Seen:
        """Returns what a page shows that forms ask for."""
        ...

    def draw(self, page: SavedPage, seen: Seen, draw: random.Random) -> Sequence[tuple[Act, int]]:
        """Returns acts that a page offers, with their weights, of which the tree draws some."""
        ...


class Node:
    """A page in a state of the world."""

    def __init__(self, page: SavedPage, seen: Seen, effect: bytes) -> None:
        self.page = page
        self.seen = seen
        self.effect = effect
        """Key of what changed since the start."""
        self.acts: list[tuple[Act, int]] | None = None
        """Acts with their weights; None before the node was left."""
        self.children: dict[Act, Node] = {}
        self.taken: Counter[Act] = Counter()
        """Times that walks took an act."""


class WalkTree:
    """All walks in one world.

    Args:
        reader: Reader of the world's pages, which stands at the start.
        seed: Seed of the draws.
        acts: Acts that are drawn.
        read_effect: Called with a world in which the last act changed what is judged. Returns why the branch means
            nothing; an empty text keeps it.
    """

    def __init__(
        self, reader: PageReader, seed: int, acts: WalkActs, read_effect: Callable[[ServiceWorld], str]
    ) -> None:
        self._reader = reader
        self._seed = seed
        self._acts = acts
        self._read_effect = read_effect
        self._start = outcome_key(reader.world)
        self._nodes: dict[tuple[bytes, str, str], Node] = {}
        self._root: Node | None = None
        self._at: Node | None = None
        """Node at which the reader stands; None after a refusal."""
        self._walks = self._walked = self._played = self._merged = 0
        self._pruned: Counter[str] = Counter()

    @property
    def figures(self) -> Figures:
        """Counts so far."""
        counts = (self._walks, self._walked, self._played, len(self._nodes), self._merged)
        return Figures(*counts, dict(self._pruned))

    async def walk(self) -> None:
        """Makes one walk, from the start page."""
        self._walks += 1
        draw = random.Random(f"{self._seed}/{self._walks}")
        if self._root is None:
            await self._reader.follow("/")
            self._root = await self._node(frozenset(), self._start)
        node = self._root
        for _ in range(DEPTH):
            if node.acts is None:
                offered = list(self._acts.draw(node.page, node.seen, draw))
                offered.sort(key=lambda one: draw.random() ** (1 / one[1]), reverse=True)  # draws by weight
                node.acts = offered[:WIDTH]
            if not node.acts:
                return
            weights = [weight / (1 + node.taken[one]) for one, weight in node.acts]  # turns to what is new
            act = draw.choices([one for one, _ in node.acts], weights)[0]
            node.taken[act] += 1
            self._walked += 1
            child = node.children.get(act) or await self._play(node, act)
            if child is None:
                node.acts = [one for one in node.acts if one[0] != act]
                return
            node.children[act] = child
            node = child

    async def _play(self, node: Node, act: Act) -> Node | None:
        """Carries an act out; returns the node that it leads to, or None if the branch is pruned."""
        self._played += 1
        reader = self._reader
        if self._at is not node:
            await reader.load(node.page)
        self._at = None
        if act.texts is None:
            content = await reader.follow(act.address)
        else:
            form = next(one for one in node.page.content.forms if one.action == act.address)
            content = await reader.send(form, dict(act.texts))
        if content.status >= 400:
            self._pruned["the site refused it"] += 1
            return None
        effect = outcome_key(reader.world)
        if effect not in (node.effect, self._start):
            reason = self._read_effect(reader.world)
            if reason:
                self._pruned[reason] += 1
                return None
        return await self._node(node.seen, effect)

    async def _node(self, seen: Seen, effect: bytes) -> Node:
        reader = self._reader
        key = (effect, reader.world.database.digest(), reader.address)
        found = self._nodes.get(key)
        if found is not None:
            self._merged += 1
        else:
            seen |= self._acts.seen_on(reader.content)
            found = self._nodes[key] = Node(await reader.save(), seen, effect)
            self._at = found
        return found
