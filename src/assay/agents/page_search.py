"""Agent that searches a site on forks, best first, and carries out the best plan that it found.

Each step is tried in a fork of the pages and of what is behind them, so nothing that is tried happens in the attempt.
States that were reached before are not opened again. An act whose words say that it cannot be taken back (send, pay,
delete, ...) is refused until the end: it may only be the last of a plan that reaches the goal, and nothing is searched
behind it. Pages are read and estimates are made from the text of the tree and the instruction alone, without a model;
the estimate knows requests for named values and a last page, as the family `sites` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from assay.environments.browser.page_text import PageView, read_view
from assay.environments.interface import World
from assay.errors import TaskError
from assay.records import Evidence, ToolCall, canonical_bytes

from ._options import read_options
from ._page_reading import Act, Goal, acts_on, confirming_click, distance, read_goal
from .frontier import Frontier
from .interface import Attempt

_STEP = 0.6
"""Cost of a step beside the estimate of what is left."""
_MOST_NODES = 3_000
"""States that the evidence lists."""
_MOST_TEXT = 200


@runtime_checkable
class ForksPages(Protocol):
    """World in a browser that can be forked."""

    def fork_pages(self) -> World:
        """Returns an independent world with the same pages; the caller closes it."""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    forks: Annotated[int, msgspec.Meta(ge=1)] = 150
    """Forks that may be opened."""


class _Node(NamedTuple):
    number: int
    """Position in the list of states of the evidence; -1 is the start."""
    world: World
    view: PageView
    first: Mapping[str, str]
    """Values as they were seen first on the way."""
    known: Mapping[str, str]
    """Values as they were seen last on the way."""
    codes: frozenset[str]
    plan: tuple[tuple[str, Mapping[str, Any]], ...]
    steps: int


def require_site(attempt: Attempt, agent: str, does: str) -> ForksPages:
    """Returns the tools of a site in a browser. Raises `TaskError` in any other environment; `does` is the
    agent's verb in the message."""
    if isinstance(attempt.tools, ForksPages):
        return attempt.tools
    raise _refusal(attempt, agent, does)


def require_pages(attempt: Attempt, agent: str, does: str) -> None:
    """Requires the tools of a browser, on a site or on recorded pages. Raises `TaskError` as `require_site`."""
    if all(spec.name != "read_page" for spec in attempt.tools.specs()):
        raise _refusal(attempt, agent, does)


def _refusal(attempt: Attempt, agent: str, does: str) -> TaskError:
    return TaskError(
        f"agent {agent!r} {does} sites in a browser alone, and task {attempt.task.id!r} is in an environment "
        f"{attempt.task.environment.kind!r}: take tasks of the family sites"
    )


class PageSearchAgent:
    """Searches on forks. Option: `forks`, how many may be opened."""

    name = "page-search"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment is not a site in a browser."""
        tools = require_site(attempt, self.name, "searches")
        (shown,) = await attempt.act([_as_call(0, "read_page", {})])
        search = _Search(read_goal(str(attempt.task.instruction)), self._options.forks)
        try:
            plan = await search.find(tools.fork_pages(), shown.content)
        finally:
            await search.close()
            attempt.note(Evidence("search", "audit", "search", search.summary()))
        for number, (name, arguments) in enumerate(plan, 1):
            await attempt.act([_as_call(number, name, arguments)])
            if attempt.ended is not None:
                return
        attempt.finish("the goal was reached" if search.is_found else "the goal was not found; nothing final was done")


def _as_call(number: int, name: str, arguments: Mapping[str, Any]) -> ToolCall:
    given = dict(arguments)
    return ToolCall(f"s{number}", name, canonical_bytes(given).decode(), given)


class _Search:
    """Search of one attempt."""

    def __init__(self, goal: Goal, forks: int) -> None:
        self._goal = goal
        self._frontier = Frontier[_Node](forks)
        self._open: dict[int, World] = {}
        self._tree: list[tuple[int, str, str]] = []
        """The state before each act, the act, and the page that it led to."""
        self._path: tuple[int, ...] = ()
        self._refused = 0
        self.is_found = False

    def summary(self) -> dict[str, Any]:
        """Returns what the search did, as evidence."""
        return {
            **self._frontier.statistics(),
            "refused": self._refused,
            "found": self.is_found,
            "tree": [[number, *one] for number, one in enumerate(self._tree[:_MOST_NODES])],
            "path": list(self._path),
        }

    async def close(self) -> None:
        """Closes the worlds that are still open."""
        for world in tuple(self._open.values()):
            await self._close(world)

    async def _close(self, world: World) -> None:
        self._open.pop(id(world), None)
        await world.close()

    async def find(self, world: World, shown: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Returns the calls of a plan that reaches the goal; none if no plan was found. Takes the world over."""
        self._open[id(world)] = world
        view = read_view(shown)
        self._frontier.push(_Node(-1, world, view, {}, {}, view.codes, (), 0), 0.0)
        while self._frontier:
            node = self._frontier.pop()
            for act in acts_on(node.view, sorted(node.codes)):
                if not self._frontier.has_budget:
                    break
                child = await self._try(node, act)
                if child is None:
                    continue
                left = distance(self._goal, child.first, child.known, child.view.heading)
                if not left and self._goal.wishes.keys() <= child.known.keys():
                    self.is_found, self._path = True, self._way_to(child.number)
                    return child.plan
                if act.is_irreversible:
                    self._refused += 1
                    await self._close(child.world)
                    continue
                self._frontier.push(child, left + _STEP * child.steps)
            await self._close(node.world)
        return ()

    def _way_to(self, number: int) -> tuple[int, ...]:
        way = list[int]()
        while number >= 0:
            way.insert(0, number)
            number = self._tree[number][0]
        return tuple(way)

    async def _try(self, node: _Node, act: Act) -> _Node | None:
        """Does an act in a fork; returns the node, or None if it failed or led to a known state."""
        assert isinstance(node.world, ForksPages), "a fork is of the same kind"
        world = node.world.fork_pages()
        self._open[id(world)] = world
        self._frontier.count_act(act.words)
        plan, view = list(node.plan), node.view
        has_failed = False
        calls = list(act.calls)
        while calls and not has_failed:
            name, arguments = calls.pop(0)
            observation = await world.call(name, dict(arguments))
            plan.append((name, arguments))
            has_failed, view = observation.error, read_view(observation.content)
            asked = None if calls or len(plan) - len(node.plan) > len(act.calls) else confirming_click(view)
            calls += [asked] if asked is not None else []
        if has_failed or any(part.role == "alert" for part in view.parts):
            self._frontier.count_failure()
            await self._close(world)
            return None
        first = {**view.values, **node.first}
        known, codes = {**node.known, **view.values}, node.codes | view.codes
        if not self._frontier.enter((await world.digest(), view.heading, codes)):
            await self._close(world)
            return None
        self._tree.append((node.number, act.about[:_MOST_TEXT], view.heading[:_MOST_TEXT]))
        return _Node(len(self._tree) - 1, world, view, first, known, codes, tuple(plan), node.steps + 1)
