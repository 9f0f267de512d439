"""Walks over sites from state machines: their acts, and the tasks that the states which they brought about become.

A walk that only looks around, or that took back what it did, means nothing: no longer walk is built on it. What a walk
brought about becomes a task if it cannot be done without a code that has to be read. Its reference plan is the walk
itself, without the parts that its end does not need.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.environments.services.machines.compile import CODE
from assay.environments.services.machines.machine import Machine, State, Transition, Value
from assay.environments.services.machines.search import Node, Reach, Step
from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import ExpectedChange, expected_changes
from assay.environments.services.pages.catalog import humanize
from assay.environments.services.pages.fields import write_texts
from assay.environments.services.pages.site import Site
from assay.environments.services.plans import outcome_key
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task

from .domains import DOMAINS
from .page_client import PageContent, SavedPage
from .reward_writer import Unreadable
from .searched_site import OPENINGS, SearchedSite, SiteTaskName
from .walk_tree import FILLINGS, Act, Seen
from .walked_world import Effect, NoTask, WalkedWorld

_CHANGE, _MOVE, _ENTER = 8, 3, 1
"""Weights of acts: forms that change or take a value, forms that only lead elsewhere, the link to the site's screen."""
_GOAL: Final = re.compile(
    r"Use the site “(?P<site>[^”]+)” until its current screen is “(?P<title>[^”]+)”"
    r"(?:, and everything else is as it is now\."
    r"| and these values hold:\n(?P<wishes>.+)\nValues that are not named stay as they are now\.)",
    re.DOTALL,
)
_WISH: Final = re.compile(r"- (?P<name>[^:\n]+): (?P<value>[^\n]+)")


class MachineActs:
    """Acts on the pages of a site from a state machine.

    Args:
        machine: The machine.
        site: Its pages.
    """

    def __init__(self, machine: Machine, site: Site) -> None:
        self._site, self._home = site, site.application_address(machine.name)
        self._codes = {humanize(name): name for name in machine.codes}
        self._by_address = {site.tool_address(site.catalog.tools[one.name]): one for one in machine.transitions}
        self._machine = machine

    def seen_on(self, content: PageContent) -> Seen:
        """Returns the codes that a page shows."""
        return frozenset((self._codes[term], value) for term, value in content.terms if term in self._codes)

    def draw(self, page: SavedPage, seen: Seen, draw: random.Random) -> list[tuple[Act, int]]:
        """Returns the filled-in forms of a page; of one without any, the link to the site's screen."""
        offered: list[tuple[Act, int]] = []
        for form in page.content.forms:
            transition = self._by_address.get(form.action)
            if transition is None:
                continue
            weight = _CHANGE if _changes(transition) else _MOVE
            drawn = [self._fill_in(transition, dict(seen), draw) for _ in range(FILLINGS if transition.asks else 1)]
            offered += [(Act(form.action, texts), weight) for texts in dict.fromkeys(drawn) if texts is not None]
        if not offered and page.address != self._home and self._home in page.content.links:
            return [(Act(self._home), _ENTER)]
        return offered

    def _fill_in(
        self, transition: Transition, seen: Mapping[str, str], draw: random.Random
    ) -> tuple[tuple[str, str], ...] | None:
        """Returns the texts of a form; None if it takes a code that no page showed."""
        arguments: dict[str, Any] = {
            name: draw.choice(self._machine.by_variable[name].domain) for name in transition.asks
        }
        if transition.code:
            if transition.code not in seen:
                return None
            arguments[CODE] = seen[transition.code]
        texts = write_texts(self._site.fields(transition.name), arguments)
        return tuple((name, text) for name, text in texts.items() if text)


def _changes(transition: Transition) -> bool:
    return bool(transition.asks or transition.sets or transition.adds or transition.code)


class WalkedSite(WalkedWorld):
    """Walks over one site."""

    def __init__(self, site: SearchedSite, interface: str) -> None:
        super().__init__(site.world(), {"machines": [site.machine]})
        self._searched, self._interface = site, interface
        self._reader = GoalReader(site.machine, site.world())

    def acts(self, site: Site) -> MachineActs:
        return MachineActs(self._searched.machine, site)

    def write_reward(self, specification: str) -> tuple[ExpectedChange, ...]:
        return self._reader.write(specification)

    def read_effect(self, world: ServiceWorld) -> str:
        machine, reach = self._searched.machine, self._searched.reach
        steps = self._steps(world)
        walked, did = self._nodes_of(steps)
        goal = walked[-1].state
        if not machine.difference(reach.start.state, goal):
            if did:
                return "what it did was taken back"
            return "it only looks around" if len(walked) > len(machine.screens) else ""
        if outcome_key(world) not in self.effects:
            way = shorten(reach, steps)
            found = self._searched.bring_about(reach, way)
            assert found is not None, "a part of a walk that is possible was tried"
            names = tuple(sorted({step.transition.name for step in way if _changes(step.transition)}))
            self.effects[outcome_key(world)] = Effect(found, found.plan, tuple(found.changes), names)
        return ""

    def _steps(self, world: ServiceWorld) -> list[Step]:
        """Returns the steps of a walk; none of its calls was refused."""
        by_name = self._searched.machine.by_transition
        found = []
        for call in world.calls:
            if (transition := by_name.get(call.action)) is not None and call.code is None:
                found.append(Step(transition, tuple((name, call.arguments[name]) for name in transition.asks)))
        return found

    def _nodes_of(self, steps: Sequence[Step]) -> tuple[list[Node], bool]:
        """Returns the nodes of a walk, and whether it changed a value anywhere."""
        reach = self._searched.reach
        nodes, did = [reach.start], False
        for step in steps:
            node = reach.follow(nodes[-1], step)
            assert node is not None, "the world took the step"
            did = did or node.state.values != nodes[-1].state.values
            nodes.append(node)
        return nodes, did

    def draft_task(self, effect: Effect, named: tuple[int, int], outcomes: set[Any]) -> Task:
        site, found = self._searched, effect.draft
        if site.demands_reading and found.goal in found.reach.unread_states:
            raise NoTask("it can be done without reading a code")
        key = site.machine.name, outcome_key(found.world)
        if key in outcomes:
            raise NoTask("known outcome")
        outcomes.add(key)
        seed, number = named
        name = "-".join(["sites", site.machine.name, self._interface, f"d{len(found.way)}", str(seed), str(number)])
        return site.task(SiteTaskName(name, self._interface, ""), found)


def shorten(reach: Reach, way: Sequence[Step]) -> list[Step]:
    """Returns a way to the same state without the parts that it does not need, the longest of which go first."""
    goal = _end(reach, way)
    left = list(way)
    size = len(left)
    while size:
        shorter = next(
            (
                rest
                for at in range(len(left) - size + 1)
                if _end(reach, rest := [*left[:at], *left[at + size :]]) == goal
            ),
            None,
        )
        if shorter is None:
            size -= 1
        else:
            left, size = shorter, min(size, len(shorter))
    return left


def _end(reach: Reach, way: Sequence[Step]) -> State | None:
    """Returns where a way ends; None if it is not possible, also for want of a code that was not seen."""
    node: Node | None = reach.start
    for step in way:
        if node is None or (step.transition.code and step.transition.code not in node.seen):
            return None
        node = reach.follow(node, step)
    return None if node is None else node.state


class GoalReader:
    """Writes the reward of a task from its text alone; it never gets the walk, nor the state in which it ended.

    Args:
        machine: The site.
        world: A world of it at its start, of the reader's own.
    """

    def __init__(self, machine: Machine, world: ServiceWorld) -> None:
        self._machine, self._world = machine, world

    def write(self, specification: str) -> tuple[ExpectedChange, ...]:
        """Returns the outcome that a text demands. Raises `Unreadable`."""
        said = _GOAL.fullmatch(specification)
        if said is None or said["site"] != self._machine.name:
            raise Unreadable("the text is not a goal of this site")
        titles = [one.name for one in self._machine.screens if one.title == said["title"]]
        if len(titles) != 1:
            raise Unreadable(f"{len(titles)} screens are called so")
        table = next(one for one in self._world.composition.tables if one.name == "progress")
        (row,) = self._world.database.rows(table)
        before = {column.name: value for column, value in zip(table.columns, row, strict=True)}
        after = {**before, "screen": titles[0], **self._values(said["wishes"] or "")}
        changes = [RowChange(table.sql_name, (1,), before, after)] if after != before else []
        return expected_changes(self._world.composition.tables, changes)

    def _values(self, wishes: str) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for line in wishes.splitlines():
            said = _WISH.fullmatch(line)
            named = [one for one in self._machine.variables if said and one.name.replace("_", " ") == said["name"]]
            values = [one for variable in named for one in variable.domain if said and str(one) == said["value"]]
            if len(values) != 1 or named[0].name in found:
                raise Unreadable(f"a wish has {len(values)} readings")
            found[named[0].name] = values[0]
        return found


class SiteWalks:
    """Sites over which walks are made.

    Args:
        site: Names of sites, joined by `+`, in turn.
        interface: How the agent reaches them: `pages` in a browser, or `tools`.
    """

    def __init__(self, site: str, interface: str) -> None:
        known = {domain.name: domain for domain in DOMAINS}
        self.names = tuple(dict.fromkeys(name for name in str(site).split("+") if name))
        if unknown := [name for name in self.names if name not in known]:
            raise UserError(f"site={unknown[0]} of the family 'walks': expected {', '.join(known)}, joined by +")
        if interface not in OPENINGS:
            raise UserError(f"interface={interface} of the family 'walks': expected pages or tools")
        self._domains = [known[name] for name in self.names]
        self._interface = interface

    def open(self, seed: int, number: int) -> WalkedSite:
        """Returns a site of a seed, before its walks."""
        turn, at = divmod(number, len(self._domains))
        return WalkedSite(SearchedSite.drawn(self._domains[at], seed * 10_007 + turn), self._interface)
