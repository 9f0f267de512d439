"""The task family `walks`: tasks by interaction first. Walks over pages come before any wish; what they did is read
from the state, and the request is written afterwards.

An effect becomes a task if it can be asked for in words, its records can be found by reading, the policy allows it,
and the reward that `RewardWriter` makes from the text alone fails on doing nothing, passes on the walk's own end, and
fails on the ends of other walks and of changed plans. The same `n`, `seed` and options give the same tasks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from assay.environments.services.database import RowChange
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, outcome_key, play, wrong_plans
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Check, Task, digest_record
from assay.synthesis.services.conduct import keep_policy
from assay.synthesis.services.family import Assignment, ServiceTasks
from assay.synthesis.services.instruction import Descriptions, Unspeakable, wish_of
from assay.synthesis.services.requests import Draft
from assay.synthesis.services.walk import Walker

from .reward_writer import RewardWriter, Unreadable, gate
from .walk_tree import Figures, WalkTree

_TASKS_OF_A_WORLD: Final = 5
_BARREN_WORLDS: Final = 3
"""Worlds in a row without a task after which no more are sought."""
_MOST_WRONG: Final = 40
"""Other ends on which a reward is tried."""
_MOST_WRITES: Final = 4
T = TypeVar("T")


class WalkReport(msgspec.Struct, frozen=True):
    """Figures of a synthesis."""

    worlds: int = 0
    walks: int = 0
    walked: int = 0
    """Acts of all walks."""
    played: int = 0
    """Acts that were carried out."""
    nodes: int = 0
    merged: int = 0
    """Acts that led to a page and state that another act had led to."""
    pruned: dict[str, int] = {}
    """Branches that were pruned, by reason."""
    effects: int = 0
    """Effects that can be asked for."""
    refused: dict[str, int] = {}
    """Effects that became no task, by reason."""
    wrong_states: int = 0
    """Wrong states on which rewards were tried; all of them failed for the tasks that were kept."""
    tasks: int = 0

    @property
    def saved(self) -> float:
        """Share of the acts that need not be played because walks share them."""
        return 1 - self.played / self.walked if self.walked else 0.0


class _Effect(NamedTuple):
    draft: Draft
    changes: tuple[RowChange, ...]
    """Net changes at the end of the walk."""


class WalkTasks(ServiceTasks):
    """Tasks from walks over the pages of applications.

    Args:
        app: Applications, joined by `+`, as for the family `services`.
        interface: How the agent reaches them: `pages` in a browser, or `tools`.
        walks: Walks in each world.
    """

    def __init__(self, *, app: str, interface: str = "pages", walks: int = 200) -> None:
        super().__init__(app=app, level="explicit", interface=interface)
        if type(walks) is not int or not 1 <= walks <= 100_000:
            raise UserError(f"walks={walks} of the family 'walks': expected 1 to 100000")
        self._count = walks

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        return self.make(n, seed)[0]

    def make(self, n: int, seed: int) -> tuple[tuple[Task, ...], WalkReport]:
        """Returns the tasks, and the figures of how they were made."""
        made: list[Task] = []
        outcomes: set[bytes] = set()
        report, barren = WalkReport(), 0
        while len(made) < n and barren < _BARREN_WORLDS:
            world_seed = self._world_seed(seed, report.worlds)
            explored = _Explored(*self._world_of(world_seed))
            _run(explored.walk(world_seed, self._count))
            refused: Counter[str] = Counter(report.refused)
            tried, before = report.wrong_states, len(made)
            for effect in explored.in_turn():
                if len(made) in (n, before + _TASKS_OF_A_WORLD):
                    break
                found = self._task_from(effect, explored, (seed, len(made)), outcomes)
                if isinstance(found, str):
                    refused[found] += 1
                else:
                    made.append(found[0])
                    tried += found[1]
            barren = 0 if len(made) > before else barren + 1
            report = _add(report, explored, dict(refused), tried, len(made))
        return tuple(made), report

    def _task_from(
        self, effect: _Effect, explored: _Explored, named: tuple[int, int], outcomes: set[bytes]
    ) -> tuple[Task, int] | str:
        """Returns a task and the number of wrong states that its reward was tried on, or why there is none."""
        world, (seed, number) = explored.descriptions.world, named
        draw = random.Random(f"{world.seed}/{number}")
        place = Assignment(seed, number, "explicit", "possible", draw, 0, draw)
        task = self._task(place, explored.descriptions, effect.draft, outcomes, Counter())
        if task is None:
            return "not sound: known outcome, known without reading, or an identifier in the text"
        state = task.checks[0]
        if len(state.parameters["outcomes"]) > 1:
            return "depends on the order of the requests"
        try:
            reward = explored.writer(self._world_services).write(str(task.instruction).partition("\n\n")[0])
        except Unreadable as exc:
            return f"the text alone does not say it: {exc}"
        problem, tried = gate(reward, effect.changes, explored.wrong_states(effect))
        if problem:
            return f"the reward is not sound: {problem}"
        check = Check(state.name, state.kind, {"outcomes": [{"changes": as_json(reward)}]})
        checks = (check, *task.checks[1:])
        return msgspec.structs.replace(
            task,
            id=f"walks-{task.id.removeprefix('services-')}",
            checks=checks,
            digest=digest_record([task.instruction, task.environment, checks]),
            tags=("walks", *task.tags[1:]),
            source=f"family walks, {'+'.join(self._apps)}, seed {seed}",
            metadata={**task.metadata, "wrong_states": tried},
        ), tried


class _Explored:
    """Walks in one world and the effects that can be asked for."""

    def __init__(self, descriptions: Descriptions, walker: Walker) -> None:
        self.descriptions, self._walker = descriptions, walker
        self.effects: dict[bytes, _Effect] = {}
        self._reasons: dict[bytes, str] = {}
        self.figures: Figures | None = None
        self._writer: RewardWriter | None = None

    async def walk(self, seed: int, walks: int) -> None:
        """Makes walks."""
        tree = WalkTree(self.descriptions.world, seed, self._read_effect)
        for _ in range(walks):
            await tree.walk()
        self.figures = tree.figures

    def writer(self, services: Sequence[Any]) -> RewardWriter:
        """Returns the writer of rewards, which has a world of its own, made anew."""
        if self._writer is None:
            given = self.descriptions.world
            self._writer = RewardWriter(ServiceWorld.of(services, given.seed))
        return self._writer

    def in_turn(self) -> Iterator[_Effect]:
        """Yields the effects, first one of each combination of actions, the shortest first."""
        groups: dict[tuple[str, ...], list[_Effect]] = {}
        for effect in self.effects.values():
            actions = tuple(sorted(call.action for call in effect.draft.walk.writes))
            groups.setdefault(actions, []).append(effect)
        most = max((len(group) for group in groups.values()), default=0)
        for at in range(most):
            yield from (group[at] for group in groups.values() if at < len(group))

    def wrong_states(self, effect: _Effect) -> Iterator[Sequence[RowChange]]:
        """Yields net changes of ends that are not the wanted one: of other walks, and of changed plans."""
        world, plan = self.descriptions.world, effect.draft.walk.plan
        wanted = self._as_asked(effect.changes)
        plans = [
            [PlannedCall(call.name, call.parsed or {}) for call in calls]
            for calls in wrong_plans(world, plan, world.seed).values()
        ]
        ends = [one.changes for one in self.effects.values()]
        ends += [tuple(play(world, calls).database.changes(judged_only=True)) for calls in plans]
        random.Random(world.seed).shuffle(ends)
        yield from [changes for changes in ends if self._as_asked(changes) != wanted][:_MOST_WRONG]

    def _as_asked(self, changes: Sequence[RowChange]) -> Any:
        return expected_changes(self.descriptions.world.composition.tables, changes)

    def _read_effect(self, world: ServiceWorld) -> str:
        """Keeps the effect of a branch, or returns why it means nothing."""
        key = outcome_key(world)
        if key not in self._reasons:
            found = self._label(world)
            if isinstance(found, Draft):
                self.effects[key] = _Effect(found, tuple(world.database.changes(judged_only=True)))
            self._reasons[key] = "" if isinstance(found, Draft) else found
        return self._reasons[key]

    def _label(self, world: ServiceWorld) -> Draft | str:
        start, key = self.descriptions.world, outcome_key(world)
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


def _add(
    report: WalkReport, explored: _Explored, refused: Mapping[str, int], wrong_states: int, tasks: int
) -> WalkReport:
    assert explored.figures is not None, "walks were made"
    figures = explored.figures
    return WalkReport(
        report.worlds + 1,
        report.walks + figures.walks,
        report.walked + figures.walked,
        report.played + figures.played,
        report.nodes + figures.nodes,
        report.merged + figures.merged,
        dict(Counter(report.pruned) + Counter(figures.pruned)),
        report.effects + len(explored.effects),
        dict(refused),
        wrong_states,
        tasks,
    )


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine that waits for nothing outside of this process, also within an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        coroutine.close()
    raise AssertionError("pages in this process wait for nothing")
