"""Agent that plans over a memory of a site's pages, and acts in the one attempt, without forks and without a model.

From a memory file it takes the moves between pages that verified attempts on the same site recorded (`assay memory
add`), retrieves the pages that fit the request (BM25) with the ways between them, searches best first for acts that
bring the wanted values and the last page about, and carries the plan out (after MapAgent's page memory, without its
models). Every page is compared with what was remembered: the records that said otherwise are given up for the attempt,
and it plans anew. Where no plan is known it explores: what the request names, then acts that were tried least and enter
nothing. Without a memory it knows what the attempt has shown. An act whose words say that it cannot be taken back is
only the last of a plan that reaches the goal.

It reads requests for named values and a last page, as the family `sites` makes them.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from assay.environments.browser.page_text import SKIP_LINK, PageView, read_view
from assay.records import Evidence, Observation, ToolCall, canonical_bytes

from ._options import read_options
from ._page_reading import Goal, confirming_click, distance, read_goal
from .frontier import Frontier, is_irreversible
from .interface import Attempt
from .memory import MemoryRecord, SelectedRecords, read_memory, select_records
from .page_map import OWN, UNSEEN, Effect, PageMap, apply
from .page_memory import PageKey, PageReader, RememberedAct, mask, of_site, page_moves, remember_page
from .page_search import require_pages
from .patched_attempt import recent_patches

_STEP = 0.6
"""Cost of an act of a plan beside the estimate of what is left."""
_STATES = 4_000
"""Acts that are tried in a plan's search, on the map alone."""
_MOST_CHOICES = 12


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    memory: str = ""
    """Memory file, as `assay memory add` writes it; empty for none. Records of other sites, and of tasks that were
    changed since, are refused."""
    acts: Annotated[int, msgspec.Meta(ge=1)] = 40
    """Links that are followed and forms that are sent; each may take several calls."""
    pages: Annotated[int, msgspec.Meta(ge=1)] = 12
    """Pages that are retrieved for a plan, beside those on the ways between them."""


class PagePlannerAgent:
    """Plans over remembered pages. Options: `memory`, `acts`, `pages`."""

    name = "page-planner"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)
        self._records = read_memory(Path(self._options.memory)) if self._options.memory else ()

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment shows no pages."""
        require_pages(attempt, self.name, "plans on")
        planning = _Planner(attempt, self._options)
        try:
            await planning.run(self._records)
        finally:
            planning.record()


class _Step(NamedTuple):
    """An act of a plan, and the page that it should lead to."""

    act: RememberedAct
    to: PageKey


class _Node(NamedTuple):
    page: PageKey
    values: Mapping[str, str]
    codes: frozenset[str]
    plan: tuple[_Step, ...]


class _Planner:
    """One attempt under way."""

    def __init__(self, attempt: Attempt, options: _Options) -> None:
        self._attempt, self._options = attempt, options
        self._goal: Goal = read_goal(str(attempt.task.instruction))
        self._query = f"{self._goal.title} {' '.join(itertools.chain(*self._goal.wishes.items()))}"
        self._draw = random.Random(attempt.seed)
        self._map, self._reader = PageMap(), PageReader()
        self._first: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._tried: Counter[tuple[PageKey, RememberedAct]] = Counter()
        self._view: PageView | None = None
        self._calls = 0
        self._counts = Counter[str]()

    async def run(self, records: tuple[MemoryRecord, ...]) -> None:
        """Acts until the goal is reached or the acts are used up."""
        await self._call("read_page", {})
        if self._view is None:
            return
        if self._options.memory:
            self._remember(records, self._view)
        plan: list[_Step] = []
        for _ in range(self._options.acts):
            if self._attempt.ended is not None:
                return
            if self._is_done():
                self._attempt.finish("the goal was reached")
                return
            plan = plan or self._make_plan()
            if plan:
                step = plan.pop(0)
                self._counts["planned"] += 1
                if not await self._carry_out(step.act, step.to):
                    plan = []
            else:
                await self._explore()
        if self._attempt.ended is None:
            self._attempt.finish("the goal was reached" if self._is_done() else "the acts are used up")

    def _remember(self, records: tuple[MemoryRecord, ...], view: PageView) -> None:
        selected = select_records(records, self._attempt.task, "any")
        site = remember_page(view).site
        used = list(of_site(selected.used, site))
        for record in used:
            for move in page_moves(record):
                if move.before.site == move.after.site == site:
                    self._map.learn(move, record.head)
        refused = selected.refused + len(selected.used) - len(used)
        self._attempt.note(SelectedRecords(used, refused, selected.stale).evidence())

    def _is_done(self) -> bool:
        assert self._view is not None, "a page is shown"
        left = distance(self._goal, self._first, self._known, self._view.heading)
        return not left and self._goal.wishes.keys() <= self._known.keys()

    # Planning.

    def _make_plan(self) -> list[_Step]:
        """Returns the steps to the goal as far as the map knows; empty without any."""
        assert self._view is not None, "a page is shown"
        here = remember_page(self._view).key
        pages = self._map.retrieve(self._query, here, self._options.pages)
        values = self._values()
        first = {**dict.fromkeys(values, UNSEEN), **self._map.initial, **self._first}
        frontier = Frontier[_Node](_STATES)
        start = _Node(here, values, frozenset(self._reader.codes), ())
        frontier.enter(_key_of(start))
        frontier.push(start, 0.0)
        while frontier:
            node = frontier.pop()
            for act, effect in self._map.acts(node.page, pages):
                if not frontier.has_budget:
                    break
                frontier.count_act(act.label)
                child = self._try(node, act, effect)
                if child is None or not frontier.enter(_key_of(child)):
                    continue
                left = distance(self._goal, first, child.values, child.page.heading)
                if not left and self._goal.wishes.keys() <= child.values.keys():
                    self._counts["plans"] += 1
                    return list(child.plan)
                if not is_irreversible(act.label):
                    frontier.push(child, left + _STEP * len(child.plan))
        return []

    def _values(self) -> dict[str, str]:
        """Returns the values as they were seen last; those that this attempt did not see, as others saw them first."""
        return {**self._map.initial, **self._known}

    def _try(self, node: _Node, act: RememberedAct, effect: Effect) -> _Node | None:
        if not act.needs <= node.codes or not self._map.may_be_done(node.page, act, node.values):
            return None
        step = _Step(act, effect.to)
        return _Node(effect.to, apply(effect, node.values), node.codes | effect.shows, (*node.plan, step))

    # Exploring.

    async def _explore(self) -> None:
        """Does what the request asks for where the page offers it, else an act that was tried least."""
        assert self._view is not None, "a page is shown"
        self._counts["explored"] += 1
        here = remember_page(self._view).key
        offered = [act for act in self._offered() if not is_irreversible(act.label)]
        asked = [act for act in offered if self._is_asked_for(act) and not self._tried[here, act]]
        untried = [act for act in offered if not self._tried[here, act] and self._changes_nothing(act)]
        act = asked[0] if asked else self._draw.choice(untried) if untried else None
        if act is None:
            act = self._map.first_act(here, [page for page in self._map.pages if self._has_untried(page)])
        if act is None and offered:
            act = min(offered, key=lambda one: (self._tried[here, one], self._draw.random()))
        if act is None:
            await self._call("go_back", {})
            return
        await self._carry_out(act, None)

    def _offered(self) -> Iterator[RememberedAct]:
        """Yields the acts of the page: its forms with each choice of values, and its links where it has no form."""
        assert self._view is not None, "a page is shown"
        offers = self._view.main_offers or self._view.offers
        forms = [one for one in offers if one.kind == "form"]
        for form in forms:
            choices = [
                [(mask(entry.label), option) for option in entry.options if option != "Choose"]
                or [(mask(entry.label), f"<{name}>") for name in sorted(self._reader.codes)]
                for entry in form.entries
            ]
            for chosen in itertools.islice(itertools.product(*choices), _MOST_CHOICES):
                yield RememberedAct("form", mask(form.label), tuple(sorted(chosen)))
        for link in offers if not forms else ():
            if link.kind == "link" and link.label != SKIP_LINK:
                yield RememberedAct("link", mask(link.label))

    def _is_asked_for(self, act: RememberedAct) -> bool:
        """Returns whether an act enters a wanted value that does not hold yet, or a code."""
        wishes = self._goal.wishes
        return any(
            (wishes.get(label.lower()) == text.lower() and self._known.get(label.lower()) != text.lower())
            for label, text in act.texts
        ) or (bool(act.needs) and any(self._known.get(name) != value for name, value in wishes.items()))

    def _changes_nothing(self, act: RememberedAct) -> bool:
        """Returns whether an act looks like a way and not like a change: it enters nothing, and did not change a value
        elsewhere."""
        here = remember_page(self._view).key if self._view is not None else PageKey("", "")
        effect = self._map.effect(here, act)
        return not act.texts and (effect is None or not effect.sets)

    def _has_untried(self, page: PageKey) -> bool:
        return any(not self._tried[page, act] and not effect.sets for act, effect in self._map.acts(page))

    # Acting.

    async def _carry_out(self, act: RememberedAct, expected: PageKey | None) -> bool:
        """Does an act; returns whether it led where it was expected to."""
        assert self._view is not None, "a page is shown"
        here = remember_page(self._view).key
        self._tried[here, act] += 1
        calls = list(self._calls_of(act, self._view))
        if not calls:
            self._counts["not offered"] += 1
            self._map.give_up(here, act, self._values())
            return False
        for name, arguments in calls:
            if not await self._call(name, arguments):
                break
        asked = confirming_click(self._view)
        if asked is not None:
            await self._call(*asked)
        led_to = remember_page(self._view).key
        if expected is None or led_to == expected:
            return expected is not None and not self._view.is_alert
        self._counts["surprises"] += 1
        self._counts["records given up"] += self._map.forget(here, act, led_to)
        return False

    def _calls_of(self, act: RememberedAct, view: PageView) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields the calls that do an act on a page; none if the page does not offer it."""
        if act.kind == "history":
            yield act.label, {}
            return
        found = next((part for part in view.parts if part.role == act.kind and mask(part.name) == act.label), None)
        if found is None:
            return
        if act.kind == "link":
            yield "click", {"bid": found.number}
            return
        inside = [part for part in view.parts if part.number and view.form_of(part) == found.name]
        button = next((part for part in inside if part.role == "button"), None)
        calls: list[tuple[str, Mapping[str, Any]]] = []
        for label, text in act.texts:
            value = self._reader.codes.get(text[1:-1]) if text.startswith("<") else text
            for part in inside:
                if value is None or mask(view.label_of(part)) != label:
                    continue
                if part.role in ("combobox", "listbox") and value in part.options:
                    calls.append(("select_option", {"bid": part.number, "options": value}))
                elif part.role == "radio" and part.name == value:
                    calls.append(("click", {"bid": part.number}))
                elif part.role in ("textbox", "searchbox", "spinbutton"):
                    calls.append(("fill", {"bid": part.number, "value": value}))
        if button is not None and len(calls) == len(act.texts):
            yield from calls
            yield "click", {"bid": button.number}

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Calls a tool and learns from the page that it shows; returns False if it failed."""
        given = dict(arguments)
        self._calls += 1
        call = ToolCall(f"p{self._calls}", name, canonical_bytes(given).decode(), given)
        seen: Observation
        (seen,) = await self._attempt.act([call])
        (patch,) = recent_patches(self._attempt.tools, [call])
        made = (
            [(name, given, seen)]
            if patch is None
            else [(one.name, one.arguments, Observation(one.page)) for one in patch.calls]
        )
        if seen.error:
            return False
        for made_name, made_arguments, shown in made:
            for move in self._reader.read(made_name, made_arguments, shown.content):
                self._map.learn(move, OWN)
        view = read_view(seen.content)
        if not view.parts:
            return False
        self._view = view
        self._reader.see(view)
        page = remember_page(view)
        self._known |= dict(page.values)
        for key, value in page.values:
            self._first.setdefault(key, value)
        self._counts["records given up"] += self._map.compare(page, self._known)
        return True

    def record(self) -> None:
        """Records what the attempt did."""
        self._attempt.note(Evidence("planner", "audit", "page_planner", dict(self._counts)))


def _key_of(node: _Node) -> tuple[Any, ...]:
    return node.page, frozenset(node.values.items()), node.codes
