"""Walks over the pages of a world, as one tree: a page that several walks share is played once.

At each page a bounded number of acts is drawn: links, and forms filled in with what stands on the pages so far and with
what people know by heart (names, addresses, dates, words), never with generated identifiers that no page showed. An act
that leads to a state and page that are in the tree leads to that node. A branch is pruned where it ends in a refusal,
and where `read_effect` says that what it has done so far means nothing, so that no longer walk is built on it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from assay.environments.services.pages.catalog import PageTool
from assay.environments.services.pages.fields import PREFIX, write_texts
from assay.environments.services.plans import identifiers, outcome_key
from assay.environments.services.world import ServiceWorld
from assay.synthesis.services.walk import Walker

from .page_client import PageClient, SavedPage

WIDTH: Final = 6
"""Acts that are drawn at a page."""
FILLINGS: Final = 4
"""Times that a form is filled in, each of which is an act."""
DEPTH: Final = 14
"""Acts of a walk."""
_RECORDS: Final = "/-/records/"
_WRITE, _READ, _RECORD, _OTHER = 8, 3, 3, 1
"""Weights of acts: pages of tools that ask for something and whose form can be filled in, pages that read, records."""


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


class Node:
    """A page in a state of the world."""

    def __init__(self, page: SavedPage, seen: frozenset[tuple[str, str]], effect: bytes) -> None:
        self.page = page
        self.seen = seen
        """Identifiers that pages of the way here showed: kind and value."""
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
        world: World at the start, which is not changed.
        seed: Seed of the draws.
        read_effect: Called with a world in which the last act changed what is judged, once for each state. Returns why
            the branch means nothing; an empty text keeps it.
    """

    def __init__(self, world: ServiceWorld, seed: int, read_effect: Callable[[ServiceWorld], str]) -> None:
        self._world = world
        self._client = PageClient(world.fork(), world.seed)
        self._seed = seed
        self._read_effect = read_effect
        self._walker = Walker(world)
        self._start = outcome_key(world)
        self._nodes: dict[tuple[bytes, str, str], Node] = {}
        self._root: Node | None = None
        self._walks = self._walked = self._played = self._merged = 0
        self._pruned: Counter[str] = Counter()
        self._asked = {
            service.name
            for service in world.composition.services
            if any(action.wish for action in service.actions.values())
        }

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
            await self._client.follow("/")
            self._root = self._node(frozenset(), self._start)
        node = self._root
        for _ in range(DEPTH):
            if node.acts is None:
                node.acts = self._draw_acts(node, draw)
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
        client = self._client
        client.load(node.page)
        if act.texts is None:
            content = await client.follow(act.address)
        else:
            form = next(one for one in node.page.content.forms if one.action == act.address)
            content = await client.send(form, dict(act.texts))
        if content.status >= 400:
            self._pruned["the site refused it"] += 1
            return None
        effect = outcome_key(client.world)
        if effect not in (node.effect, self._start):
            reason = self._read_effect(client.world)
            if reason:
                self._pruned[reason] += 1
                return None
        return self._node(node.seen, effect)

    def _node(self, seen: frozenset[tuple[str, str]], effect: bytes) -> Node:
        client = self._client
        key = (effect, client.world.database.digest(), client.address)
        found = self._nodes.get(key)
        if found is not None:
            self._merged += 1
            return found
        shown = (_record(address) for address in client.content.links)
        node = self._nodes[key] = Node(client.save(), seen | {one for one in shown if one is not None}, effect)
        return node

    # Acts.

    def _draw_acts(self, node: Node, draw: random.Random) -> list[tuple[Act, int]]:
        offered: list[tuple[Act, int]] = []
        for address in node.page.content.links:
            weight = self._weigh(node, address, draw)
            if weight and address != node.page.address:
                offered.append((Act(address), weight))
        for form in node.page.content.forms:
            tool = self._tool_at(form.action)
            if tool is None:
                continue
            weight = _READ if tool.is_view else _WRITE
            drawn = [self._fill_in(node, tool, form.texts, draw) for _ in range(FILLINGS)]
            offered += [(Act(form.action, texts), weight) for texts in dict.fromkeys(drawn) if texts is not None]
        offered.sort(key=lambda one: draw.random() ** (1 / one[1]), reverse=True)  # draws by weight
        return offered[:WIDTH]

    def _weigh(self, node: Node, address: str, draw: random.Random) -> int:
        """Returns the weight of a link; 0 for a page on which nothing can be done with what was seen so far."""
        if address.startswith(_RECORDS):
            return _RECORD
        path, _, query = address.partition("?")
        tool = self._tool_at(path)
        if tool is None:
            first, *more = path.strip("/").split("/")
            return _OTHER if not more and (first in self._asked or not first) else 0
        if self._fill_in(node, tool, dict(parse_qsl(query)), draw) is None:
            return 0
        return _READ if tool.is_view else _WRITE

    def _tool_at(self, path: str) -> PageTool | None:
        """Returns the tool whose page is at a path; None for one in which no walk has an interest."""
        site = self._client.site
        tool = next((one for one in site.catalog.tools.values() if site.tool_address(one) == path), None)
        if tool is None or tool.application not in self._asked:
            return None
        action = self._world.composition.actions[tool.name]
        return tool if action.wish or action.reads_only else None

    def _fill_in(
        self, node: Node, tool: PageTool, given: Mapping[str, str], draw: random.Random
    ) -> tuple[tuple[str, str], ...] | None:
        """Returns the texts of a form, beside those that the page gives; None if something is not known."""
        action = self._world.composition.actions[tool.name]
        known = self._walker.draw_known(action, draw) if action.reads_only else {}
        arguments: dict[str, Any] = {}
        for name in tool.properties:
            if name not in tool.required and f"{{{name}" not in action.wish:
                continue
            if given.get(PREFIX + name) and name in action.takes:
                continue  # the page has filled it in
            value = known[name] if name in known else self._value(node, tool, name, draw)
            if value is None and name in tool.required:
                return None
            if value is not None:
                arguments[name] = value
        texts = write_texts(self._client.site.fields(tool.name), arguments)
        return tuple((name, text) for name, text in texts.items() if text)

    def _value(self, node: Node, tool: PageTool, name: str, draw: random.Random) -> Any:
        action = self._world.composition.actions[tool.name]
        kind = action.takes.get(name)
        if kind is None:
            return self._walker.draw_value(action, name, draw)
        if kind in self._world.composition.prefixes:
            known: Sequence[str] = sorted(value for of_kind, value in node.seen if of_kind == kind)
        else:
            known = identifiers(self._world, kind)
        return draw.choice(known) if known else None


def _record(address: str) -> tuple[str, str] | None:
    """Returns the kind and identifier that a link to a record names."""
    parts = address.removeprefix(_RECORDS).split("/")
    return (unquote(parts[0]), unquote(parts[1])) if address.startswith(_RECORDS) and len(parts) == 2 else None
