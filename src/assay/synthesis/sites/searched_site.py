"""A site from a state machine with all that can be reached in it, the tasks on it, and how a goal is said in words."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.machines.compile import CODE, compile_machine, read_codes
from assay.environments.services.machines.machine import Machine, Start, State
from assay.environments.services.machines.search import Reach, Step
from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import ExpectedChange, as_json, expected_changes
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.world import ServiceWorld
from assay.environments.task_digest import digest_task
from assay.records import Check, EnvironmentSpec, Task

from .domains import Domain
from .drawing import draw_machine

OPENINGS: Final[Mapping[str, str]] = {
    "pages": "The site is used by a browser. Begin with `read_page`: it shows the start page.",
    "tools": "The site is used by tools: one of them shows the current screen and what is possible on it.",
}
"""Last sentences of instructions by interface."""


class ReachedGoal(NamedTuple):
    """A goal, and the world in which a way led to it."""

    reach: Reach
    way: Sequence[Step]
    plan: Sequence[PlannedCall]
    world: ServiceWorld
    goal: State

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """Net changes of what is judged."""
        return self.world.database.changes(judged_only=True)


class SiteTaskName(NamedTuple):
    """Name of a task, its interface, and where it comes from."""

    name: str
    interface: str
    source: str
    tag: str = "sites"


class SearchedSite:
    """A machine and what can be reached in it; tasks may demand that a code is read."""

    def __init__(self, machine: Machine, seed: int, *, demands_reading: bool) -> None:
        self.machine, self.seed, self.demands_reading = machine, seed, demands_reading
        self.reach = Reach(machine)
        self._starts = [state for state in self.reach.states if state.screen != machine.unrecorded]

    @classmethod
    def drawn(cls, domain: Domain, seed: int) -> SearchedSite:
        """Returns the site of a domain that a seed draws."""
        return cls(draw_machine(domain, seed), seed, demands_reading=True)

    def draw_start(self, draw: random.Random) -> State:
        """Returns a state that can be reached from the site's own start."""
        return draw.choice(self._starts)

    def reach_from(self, start: State) -> Reach:
        """Returns what can be reached from a state."""
        return Reach(self.machine, _as_start(self.machine, start))

    def world(self, start: State | None = None) -> ServiceWorld:
        """Returns a world that begins in a state; default: the machine's own."""
        begins = self.machine.begin()
        start = begins if start is None else start
        knobs = {self.machine.name: {"start": msgspec.to_builtins(_as_start(self.machine, start))}}
        return ServiceWorld.of([compile_machine(self.machine)], self.seed, knobs if start != begins else {})

    def bring_about(self, reach: Reach, way: Sequence[Step]) -> ReachedGoal | None:
        """Returns what a way brings about; None if a call of it is refused."""
        world = self.world(reach.start.state)
        plan = self._plan(world, way)
        done = play(world, plan)
        if any(call.code is not None for call in done.calls):
            return None
        node = reach.start
        for step in way:
            found = reach.follow(node, step)
            if found is None:
                return None
            node = found
        return ReachedGoal(reach, way, plan, done, node.state)

    def _plan(self, world: ServiceWorld, way: Sequence[Step]) -> list[PlannedCall]:
        """Returns the calls of a way, with the codes of a world."""
        codes, calls = read_codes(world.database, self.machine), []
        for transition, given in way:
            code = {CODE: codes[transition.code]} if transition.code else {}
            calls.append(PlannedCall(transition.name, {**dict(given), **code}))
        return calls

    def task(
        self, place: SiteTaskName, found: ReachedGoal, reward: Sequence[ExpectedChange] | None = None, **more: Any
    ) -> Task:
        """Returns the task to bring a goal about.

        Args:
            place: Its name and source.
            found: The goal.
            reward: Changes that are demanded; default: those of the way.
            more: Further metadata.
        """
        machine, begun = self.machine, found.reach.start.state
        tables = found.world.composition.tables
        outcome = as_json(expected_changes(tables, found.changes) if reward is None else reward)
        start = msgspec.to_builtins(_as_start(machine, begun))
        knobs = {machine.name: {"start": start}} if begun != machine.begin() else {}
        parameters: dict[str, Any] = {
            "machines": [msgspec.to_builtins(machine)],
            "plan": msgspec.to_builtins(tuple(found.plan)),
            **({"knobs": knobs} if knobs else {}),
        }
        checks = (
            Check("state", "state", {"outcomes": [{"changes": outcome}]}),
            Check("route", "route", {"goal": msgspec.to_builtins(_as_start(machine, found.goal))}),
        )
        environment = EnvironmentSpec("sites" if place.interface == "pages" else "services", parameters, self.seed)
        instruction = "\n\n".join([write_goal(machine, begun, found.goal), OPENINGS[place.interface]])
        return Task(
            id=place.name,
            instruction=instruction,
            environment=environment,
            checks=checks,
            digest=digest_task(instruction, environment, checks),
            tags=(place.tag, place.interface, machine.name),
            source=place.source,
            metadata={
                "shortest": found.reach.states[found.goal],
                "states": len(found.reach.states),
                "skills": ", ".join(sorted({step.transition.skill for step in found.way})),
                **more,
            },
        )


def _as_start(machine: Machine, state: State) -> Start:
    return Start(state.screen, machine.difference(machine.begin(), state))


def write_goal(machine: Machine, begun: State, goal: State) -> str:
    """Returns the request to bring a state about."""
    title = machine.by_screen[goal.screen].title
    wishes = [f"- {name.replace('_', ' ')}: {value}" for name, value in machine.difference(begun, goal).items()]
    text = f"Use the site “{machine.name}” until its current screen is “{title}”"
    if not wishes:
        return f"{text}, and everything else is as it is now."
    return "\n".join([f"{text} and these values hold:", *wishes, "Values that are not named stay as they are now."])
