"""Pairs of tasks in one world and one wording that differ in one slot or one act, so that the right acts differ.

An agent that follows the instruction acts otherwise in the twin; one that follows habit acts alike in both. The facts
by which records are found are the same in both, so that nothing but the changed words tells them apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from string import Formatter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.environments.services.plans import PlannedCall, identifiers, outcome_key, play
from assay.environments.services.transaction import shift_time
from assay.records import Task

from .building import accepted_orders
from .planned import PlannedTask, UnsuitableError, derive_task
from .policy_compliance import keep_policy
from .walk import Walker

PAIR: Final = "pair"
"""Key of the metadata of both tasks of a pair."""
_OTHERS: Final = 6
"""Other values of one argument that are tried."""


class TwinsReport(msgspec.Struct, frozen=True):
    """Result of pairing tasks."""

    pairs: int
    changed: dict[str, int]
    """Pairs by what was changed: `act`, or the name of the argument."""
    tried: int
    """Changes that were tried."""
    without: dict[str, int]
    """Tasks without a twin, by reason."""


class PairedAct(msgspec.Struct, frozen=True):
    """Metadata of a paired task."""

    pair: str
    """Id of the pair's first task."""
    changed: str
    right: PlannedCall
    """The act that this task asks for."""
    other: PlannedCall
    """The act that its twin asks for in its place."""


class _Change(NamedTuple):
    part: str
    call: PlannedCall


def pair_tasks(tasks: Iterable[Task], seed: int) -> tuple[tuple[Task, ...], TwinsReport]:
    """Returns each task that has a twin, followed by the twin, and what was tried."""
    made: list[Task] = []
    changed: dict[str, int] = {}
    without: dict[str, int] = {}
    tried = 0
    for task in tasks:
        try:
            finder = _TwinFinder(PlannedTask(task), seed)
        except UnsuitableError as exc:
            without[str(exc)] = without.get(str(exc), 0) + 1
            continue
        found = finder.find()
        tried += finder.tried
        if found is None:
            reason = "no other slot or act is asked for with the same facts"
            without[reason] = without.get(reason, 0) + 1
            continue
        part, pair = found
        changed[part] = changed.get(part, 0) + 1
        made += pair
    return tuple(made), TwinsReport(len(made) // 2, changed, tried, without)


class _TwinFinder:
    """Looks for the twin of one task. Raises `UnsuitableError`."""

    def __init__(self, planned: PlannedTask, seed: int) -> None:
        self._planned = planned
        self._world = planned.world
        self._wishes = planned.require_wishes()
        self._walker = Walker(self._world)
        walk = self._walker.with_reads(planned.acts)
        if walk is None:
            raise UnsuitableError("the reads of its plan are not found again")
        self._known = walk.known
        self._right = outcome_key(play(self._world, planned.plan))
        self._draw = random.Random(f"{planned.task.digest}/{seed}")
        self.tried = 0

    def find(self) -> tuple[str, tuple[Task, Task]] | None:
        """Returns what was changed, and both tasks; None without a twin."""
        changes = [(at, change) for at, act in enumerate(self._planned.acts) for change in self._changes(act)]
        self._draw.shuffle(changes)
        for at, change in changes:
            self.tried += 1
            twin = self._twin(at, change)
            if twin is not None:
                return change.part, twin
        return None

    def _changes(self, act: PlannedCall) -> Iterator[_Change]:
        actions = self._world.composition.actions
        action = actions[act.action]
        spoken = {name for _, name, *_ in Formatter().parse(action.wish) if name}
        for name in sorted(spoken):
            for value in self._other_values(act, name):
                yield _Change(name, PlannedCall(act.action, act.arguments | {name: value}))
        for other in actions.values():
            needed = set(other.parameters.get("required", ()))
            same = {name for _, name, *_ in Formatter().parse(other.wish or "") if name} == spoken
            if other.wish and other.name != action.name and same and needed <= act.arguments.keys():
                given = {n: v for n, v in act.arguments.items() if n in other.parameters.get("properties", {})}
                yield _Change("act", PlannedCall(other.name, given))

    def _other_values(self, act: PlannedCall, name: str) -> Sequence[Any]:
        action, value = self._world.composition.actions[act.action], act.arguments[name]
        schema = action.parameters["properties"][name]
        if name in action.takes:
            others = [one for one in identifiers(self._world, action.takes[name]) if one != value]
            return self._draw.sample(others, min(_OTHERS, len(others)))
        if "enum" in schema:
            return [one for one in schema["enum"] if one != value]
        if isinstance(value, bool):
            return [not value]
        if isinstance(value, int):
            return [value + step for step in (1, 7, -1) if value + step > 0]
        try:
            return [shift_time(value, days=days) for days in (1, 3)]
        except (ValueError, TypeError):
            return []

    def _twin(self, at: int, change: _Change) -> tuple[Task, Task] | None:
        planned, call = self._planned, change.call
        wish = planned.wish(call)
        old = self._wishes[at].text
        if wish is None or wish.text == old:
            return None
        texts = [form for form in (old, old[:1].upper() + old[1:]) if planned.wording.count(form) == 1]
        acts = [*planned.acts[:at], call, *planned.acts[at + 1 :]]
        walk = self._walker.with_reads(acts)
        if len(texts) != 1 or walk is None or walk.known != self._known:
            return None
        walk = keep_policy(self._world, walk, self._world.policy.contracts)
        if walk is None or not self._is_sound(walk.plan):
            return None
        new = wish.text if texts[0] == old else wish.text[:1].upper() + wish.text[1:]
        wording = planned.wording.replace(texts[0], new)
        mine = PairedAct(planned.task.id, change.part, planned.acts[at], call)
        twins = msgspec.structs.replace(mine, right=call, other=planned.acts[at])
        original = replace(planned.task, metadata={**planned.task.metadata, PAIR: msgspec.to_builtins(mine)})
        twin = derive_task(
            planned,
            "twin",
            instruction=planned.with_wording(wording),
            plan=walk.plan,
            outcome_of=walk.plan,
            metadata={PAIR: msgspec.to_builtins(twins)},
        )
        return original, twin

    def _is_sound(self, plan: Sequence[PlannedCall]) -> bool:
        """Returns whether a plan is accepted, changes what the original does not, and has one outcome in any order."""
        world = self._world
        done = play(world, plan)
        reads = [call for call in plan if world.composition.actions[call.action].reads_only]
        key = outcome_key(done)
        if any(call.code is not None for call in done.calls[len(world.calls) :]):
            return False
        if key in (self._right, outcome_key(play(world, reads))):
            return False
        orders = accepted_orders(world, plan)
        return orders is not None and len(orders) == 1
