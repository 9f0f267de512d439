"""Walks over the pages of applications: their acts, and the tasks that their effects become.

An effect becomes a task if it can be asked for in words, its records can be found by reading, and the policy allows it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from assay.environments.services.outcome import ExpectedChange
from assay.environments.services.pages.catalog import PageTool
from assay.environments.services.pages.fields import PREFIX, write_texts
from assay.environments.services.pages.site import Site
from assay.environments.services.plans import PlannedCall, identifiers, outcome_key, play
from assay.environments.services.world import ServiceWorld
from assay.records import Task
from assay.synthesis.services.family import Assignment, ServiceTasks
from assay.synthesis.services.instruction import Descriptions, Unspeakable, wish_of
from assay.synthesis.services.policy_compliance import keep_policy
from assay.synthesis.services.requests import Draft
from assay.synthesis.services.walk import Walker

from .page_client import PageContent, SavedPage
from .reward_writer import RewardWriter
from .walk_tree import FILLINGS, Act, Seen
from .walked_world import Effect, NoTask, WalkedWorld

_RECORDS: Final = "/-/records/"
_WRITE, _READ, _RECORD, _OTHER = 8, 3, 3, 1
"""Weights of acts: pages of tools that ask for something and whose form can be filled in, pages that read, records."""
_MOST_WRITES: Final = 4


class ServiceActs:
    """Acts on the pages of applications.

    Args:
        world: World at the start, which is not changed.
        site: Its pages.
        walker: Draws arguments in that world.
    """

    def __init__(self, world: ServiceWorld, site: Site, walker: Walker) -> None:
        self._world, self._site, self._walker = world, site, walker
        self._asked = {
            service.name
            for service in world.composition.services
            if any(action.wish for action in service.actions.values())
        }

    def seen_on(self, content: PageContent) -> Seen:
        """Returns the identifiers to whose records a page links."""
        shown = (_record(address) for address in content.links)
        return frozenset(one for one in shown if one is not None)

    def draw(self, page: SavedPage, seen: Seen, draw: random.Random) -> list[tuple[Act, int]]:
        """Returns the links and filled-in forms of a page."""
        offered: list[tuple[Act, int]] = []
        for address in page.content.links:
            weight = self._weigh(seen, address, draw)
            if weight and address != page.address:
                offered.append((Act(address), weight))
        for form in page.content.forms:
            tool = self._tool_at(form.action)
            if tool is None:
                continue
            weight = _READ if tool.is_view else _WRITE
            drawn = [self._fill_in(seen, tool, form.texts, draw) for _ in range(FILLINGS)]
            offered += [(Act(form.action, texts), weight) for texts in dict.fromkeys(drawn) if texts is not None]
        return offered

    def _weigh(self, seen: Seen, address: str, draw: random.Random) -> int:
        """Returns the weight of a link; 0 for a page on which nothing can be done with what was seen so far."""
        if address.startswith(_RECORDS):
            return _RECORD
        path, _, query = address.partition("?")
        tool = self._tool_at(path)
        if tool is None:
            first, *more = path.strip("/").split("/")
            return _OTHER if not more and (first in self._asked or not first) else 0
        if self._fill_in(seen, tool, dict(parse_qsl(query)), draw) is None:
            return 0
        return _READ if tool.is_view else _WRITE

    def _tool_at(self, path: str) -> PageTool | None:
        """Returns the tool whose page is at a path; None for one in which no walk has an interest."""
        site = self._site
        tool = next((one for one in site.catalog.tools.values() if site.tool_address(one) == path), None)
        if tool is None or tool.application not in self._asked:
            return None
        action = self._world.composition.actions[tool.name]
        return tool if action.wish or action.reads_only else None

    def _fill_in(
        self, seen: Seen, tool: PageTool, given: Mapping[str, str], draw: random.Random
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
            value = known[name] if name in known else self._value(seen, tool, name, draw)
            if value is None and name in tool.required:
                return None
            if value is not None:
                arguments[name] = value
        texts = write_texts(self._site.fields(tool.name), arguments)
        return tuple((name, text) for name, text in texts.items() if text)

    def _value(self, seen: Seen, tool: PageTool, name: str, draw: random.Random) -> Any:
        action = self._world.composition.actions[tool.name]
        kind = action.takes.get(name)
        if kind is None:
            return self._walker.draw_value(action, name, draw)
        if kind in self._world.composition.prefixes:
            known: Sequence[str] = sorted(value for of_kind, value in seen if of_kind == kind)
        else:
            known = identifiers(self._world, kind)
        return draw.choice(known) if known else None


class WalkedServices(WalkedWorld):
    """Walks in one world of applications.

    Args:
        family: Family of tasks in these applications.
        descriptions: How people refer to the rows of the world.
        walker: Draws and finds arguments in it.
    """

    def __init__(self, family: ServiceWalks, descriptions: Descriptions, walker: Walker) -> None:
        super().__init__(descriptions.world, {"services": list(family.names)})
        self._family, self.descriptions, self._walker = family, descriptions, walker
        self._writer: RewardWriter | None = None

    def acts(self, site: Site) -> ServiceActs:
        return ServiceActs(self.world, site, self._walker)

    def write_reward(self, specification: str) -> tuple[ExpectedChange, ...]:
        if self._writer is None:  # it has a world of its own, made anew
            self._writer = RewardWriter(self._family.fresh_world(self.world.seed))
        return self._writer.write(specification)

    def draft_task(self, effect: Effect, named: tuple[int, int], outcomes: set[Any]) -> Task:
        return self._family.draft_task(self.descriptions, effect.draft, named, outcomes)

    def read_effect(self, world: ServiceWorld) -> str:
        key = outcome_key(world)
        if key not in self._reasons:
            found = self._label(world)
            if isinstance(found, Draft):
                actions = tuple(sorted(call.action for call in found.walk.writes))
                changes = tuple(world.database.changes(judged_only=True))
                self.effects[key] = Effect(found, found.walk.plan, changes, actions)
            self._reasons[key] = "" if isinstance(found, Draft) else found
        return self._reasons[key]

    def _label(self, world: ServiceWorld) -> Draft | str:
        start, key = self.world, outcome_key(world)
        writes = _needed(start, world, key)
        if not writes:
            return "its effect is not that of its own acts"
        if len(writes) > _MOST_WRITES:
            return f"more than {_MOST_WRITES} requests"
        walk = self._walker.with_reads(writes)
        if walk is None:
            return "a record cannot be found by reading"
        if start.policy.contracts:
            walk = keep_policy(start, walk, start.policy.contracts)
        if walk is None:
            return "the policy forbids it"
        if outcome_key(play(start, walk.plan)) != key:
            return "reading first leads elsewhere"
        try:
            wishes = tuple(wish_of(self.descriptions, call) for call in walk.writes)
        except Unspeakable:
            return "it cannot be said in words"
        return Draft(walk, wishes)


class ServiceWalks(ServiceTasks):
    """Worlds of applications in which walks are made.

    Args:
        app: Applications, joined by `+`, as for the family `services`.
        interface: How the agent reaches them: `pages` in a browser, or `tools`.
    """

    def __init__(self, app: str, interface: str) -> None:
        super().__init__(app=app, level="explicit", interface=interface)

    @property
    def names(self) -> tuple[str, ...]:
        """The applications."""
        return self._apps

    def open(self, seed: int, number: int) -> WalkedServices:
        """Returns a world of a seed, before its walks. Raises `UserError`."""
        return WalkedServices(self, *self._world_of(self._world_seed(seed, number)))

    def fresh_world(self, seed: int) -> ServiceWorld:
        """Returns a world of a seed at its start."""
        return ServiceWorld.of(self._world_services, seed)

    def draft_task(self, descriptions: Descriptions, draft: Draft, named: tuple[int, int], outcomes: set[Any]) -> Task:
        """Returns the task of an effect, whose reward is that of its plan. Raises `NoTask`."""
        seed, number = named
        draw = random.Random(f"{descriptions.world.seed}/{number}")
        place = Assignment(seed, number, "explicit", "possible", draw, 0, draw)
        task = self._task(place, descriptions, draft, outcomes, Counter())
        if task is None:
            raise NoTask("not sound: known outcome, known without reading, or an identifier in the text")
        if len(task.checks[0].parameters["outcomes"]) > 1:
            raise NoTask("depends on the order of the requests")
        return task


def _needed(start: ServiceWorld, world: ServiceWorld, key: bytes) -> list[PlannedCall]:
    """Returns the writes of a walk without those that its end does not need, such as one that another undid."""
    actions = start.composition.actions
    writes = [
        PlannedCall(call.action, call.arguments)
        for call in world.calls
        if call.role == "agent" and call.code is None and not actions[call.action].reads_only
    ]
    if outcome_key(play(start, writes)) != key:
        return []
    at = 0
    while at < len(writes):
        fewer = [*writes[:at], *writes[at + 1 :]]
        if outcome_key(play(start, fewer)) == key:
            writes = fewer
        else:
            at += 1
    return writes


def _record(address: str) -> tuple[str, str] | None:
    """Returns the kind and identifier that a link to a record names."""
    parts = address.removeprefix(_RECORDS).split("/")
    return (unquote(parts[0]), unquote(parts[1])) if address.startswith(_RECORDS) and len(parts) == 2 else None
