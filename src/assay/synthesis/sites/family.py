"""The task family `sites`: a site from a state machine, and a state of it that must be brought about.

Each task has a start and a goal; the reference solution is the shortest way that breadth-first search finds. A task is
kept if its way has the wanted length and no way leads to the goal without a code that has to be read, so that neither
chance nor the calls of another world do. The same `n`, `seed` and options give the same tasks.

Tasks on a site that was recovered from records (`machine`) may be done without reading a code, because records may
not show what asks for one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from assay.environments.services.machines.compile import CODE, compile_machine
from assay.environments.services.machines.machine import Machine, Start, State
from assay.environments.services.machines.search import Reach, Step
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, outcome_key, play
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Check, EnvironmentSpec, Task, digest_record

from .domains import DOMAINS, Domain
from .drawing import draw_machine
from .from_runs import read_site_file

_TASKS_OF_A_SITE: Final = 5
_TRIES: Final = 12
"""Starts that are drawn in one site, and goals for each of them."""
STARTS: Final = ("first", "any")
_OPENING: Final = {
    "pages": "The site is used by a browser. Begin with `read_page`: it shows the start page.",
    "tools": "The site is used by tools: one of them shows the current screen and what is possible on it.",
}


class SiteTasks:
    """Tasks on sites from state machines.

    Args:
        site: Names of sites, joined by `+`, in turn; default: all ten.
        machine: File of a site that `assay synth site` recovered from recorded attempts, in place of `site`.
        interface: How the agent reaches the site: `pages` in a browser, or `tools`.
        start: State in which a task begins: `first`, the site's own, or `any` state that can be reached.
        least: Smallest number of steps of a shortest way.
        most: Largest number.
    """

    def __init__(
        self,
        *,
        site: str = "",
        machine: str = "",
        interface: str = "pages",
        start: str = "first",
        least: int = 5,
        most: int = 14,
    ) -> None:
        known = {domain.name: domain for domain in DOMAINS}
        names = [name for name in str(site).split("+") if name] or list(known)
        if unknown := [name for name in names if name not in known]:
            raise UserError(f"site={unknown[0]} of the family 'sites': expected {', '.join(known)}, joined by +")
        if interface not in _OPENING:
            raise UserError(f"interface={interface} of the family 'sites': expected pages or tools")
        if start not in STARTS:
            raise UserError(f"start={start} of the family 'sites': expected {' or '.join(STARTS)}")
        if not (type(least) is int and type(most) is int and 1 <= least <= most):
            raise UserError(f"least={least}, most={most} of the family 'sites': expected numbers, 1 <= least <= most")
        if site and machine:
            raise UserError("site and machine of the family 'sites': give one of them")
        drawn = tuple(_draws(known[name]) for name in dict.fromkeys(names))
        self._sites = (_recovers(read_site_file(Path(machine)).machine),) if machine else drawn
        self._interface, self._start, self._lengths = interface, start, range(least, most + 1)

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        made: list[Task] = []
        outcomes: set[tuple[str, bytes]] = set()
        drawn = 0
        while len(made) < n:
            site = self._sites[drawn % len(self._sites)](seed * 10_007 + drawn // len(self._sites))
            drawn += 1
            found = list(self._tasks_of(site, seed, len(made), min(_TASKS_OF_A_SITE, n - len(made)), outcomes))
            if not found and drawn >= 3 * len(self._sites) + len(made):
                break  # the lengths that were asked for occur nowhere
            made += found
        return tuple(made)

    def _tasks_of(
        self, site: _SearchedSite, seed: int, first: int, count: int, outcomes: set[tuple[str, bytes]]
    ) -> Iterator[Task]:
        draw = random.Random(f"{site.machine.name}/{seed}/{site.seed}/{self._start}")
        number = first
        for _ in range(_TRIES):
            reach = site.reach if self._start == "first" else site.reach_from(site.draw_start(draw))
            for goal in self._goals(reach, draw):
                task = self._task(site, reach, goal, seed, number)
                if task is None or (site.machine.name, task[1]) in outcomes:
                    continue
                outcomes.add((site.machine.name, task[1]))
                number += 1
                yield task[0]
                if number == first + count:
                    return
                if self._start == "any":
                    break  # the next task begins elsewhere

    def _goals(self, reach: Reach, draw: random.Random) -> Iterator[State]:
        """Yields states of the wanted distances, each distance as often as any other."""
        by_distance: dict[int, list[State]] = {}
        for state, distance in reach.states.items():
            if distance in self._lengths and state.screen != reach.machine.unrecorded:
                by_distance.setdefault(distance, []).append(state)
        for _ in range(_TRIES if by_distance else 0):
            yield draw.choice(by_distance[draw.choice(sorted(by_distance))])

    def _task(
        self, site: _SearchedSite, reach: Reach, goal: State, seed: int, number: int
    ) -> tuple[Task, bytes] | None:
        """Returns the task of a goal and the key of its outcome; None if the goal can be reached without reading."""
        way = reach.way_to(goal)
        machine, begun = site.machine, reach.start.state
        if not way or (site.demands_reading and goal in reach.unread_states):
            return None
        world = site.world(begun)
        plan = site.plan(world, way)
        done = play(world, plan)
        if any(call.code is not None for call in done.calls):
            return None
        changes = done.database.changes(judged_only=True)
        outcome = as_json(expected_changes(world.composition.tables, changes))
        start = msgspec.to_builtins(_as_start(machine, begun))
        knobs = {machine.name: {"start": start}} if begun != machine.begin() else {}
        parameters: dict[str, Any] = {
            "machines": [msgspec.to_builtins(machine)],
            "plan": msgspec.to_builtins(tuple(plan)),
            **({"knobs": knobs} if knobs else {}),
        }
        checks = (
            Check("state", "state", {"outcomes": [{"changes": outcome}]}),
            Check("route", "route", {"goal": msgspec.to_builtins(_as_start(machine, goal))}),
        )
        environment = EnvironmentSpec("sites" if self._interface == "pages" else "services", parameters, site.seed)
        instruction = "\n\n".join([_write_goal(machine, begun, goal), _OPENING[self._interface]])
        task = Task(
            id="-".join(["sites", machine.name, self._interface, self._start, f"d{len(way)}", str(seed), str(number)]),
            instruction=instruction,
            environment=environment,
            checks=checks,
            digest=digest_record([instruction, environment, checks]),
            tags=("sites", self._interface, machine.name),
            source=f"family sites, {machine.name}, seed {seed}",
            metadata={
                "shortest": len(way),
                "states": len(reach.states),
                "skills": ", ".join(sorted({step.transition.skill for step in way})),
            },
        )
        return task, outcome_key(done)


def _draws(domain: Domain) -> Callable[[int], _SearchedSite]:
    """Returns what makes the site of a domain from a seed."""
    return lambda seed: _SearchedSite(draw_machine(domain, seed), seed, demands_reading=True)


def _recovers(machine: Machine) -> Callable[[int], _SearchedSite]:
    """Returns what makes a recovered site from a seed, which decides its codes alone."""
    return lambda seed: _SearchedSite(machine, seed, demands_reading=False)


class _SearchedSite:
    """A machine and what can be reached in it; tasks may demand that a code is read."""

    def __init__(self, machine: Machine, seed: int, *, demands_reading: bool) -> None:
        self.machine, self.seed, self.demands_reading = machine, seed, demands_reading
        self.reach = Reach(machine)
        self._starts = [state for state in self.reach.states if state.screen != machine.unrecorded]

    def draw_start(self, draw: random.Random) -> State:
        """Returns a state that can be reached from the site's own start."""
        return draw.choice(self._starts)

    def reach_from(self, start: State) -> Reach:
        """Returns what can be reached from a state."""
        return Reach(self.machine, _as_start(self.machine, start))

    def world(self, start: State) -> ServiceWorld:
        """Returns a world that begins in a state."""
        knobs = {self.machine.name: {"start": msgspec.to_builtins(_as_start(self.machine, start))}}
        given = knobs if start != self.machine.begin() else {}
        return ServiceWorld.of([compile_machine(self.machine)], self.seed, given)

    def plan(self, world: ServiceWorld, way: Sequence[Step]) -> list[PlannedCall]:
        """Returns the calls of a way, with the codes of a world."""
        codes: dict[str, str] = {}
        if names := ", ".join(self.machine.codes):
            row = world.database.connection.execute(f"SELECT {names} FROM {self.machine.name}_codes").fetchone()
            codes = dict(zip(self.machine.codes, row, strict=True))
        calls = []
        for transition, given in way:
            code = {CODE: codes[transition.code]} if transition.code else {}
            calls.append(PlannedCall(transition.name, {**dict(given), **code}))
        return calls


def _as_start(machine: Machine, state: State) -> Start:
    return Start(state.screen, machine.difference(machine.begin(), state))


def _write_goal(machine: Machine, begun: State, goal: State) -> str:
    title = machine.by_screen[goal.screen].title
    wishes = [f"- {name.replace('_', ' ')}: {value}" for name, value in machine.difference(begun, goal).items()]
    text = f"Use the site “{machine.name}” until its current screen is “{title}”"
    if not wishes:
        return f"{text}, and everything else is as it is now."
    return "\n".join([f"{text} and these values hold:", *wishes, "Values that are not named stay as they are now."])
