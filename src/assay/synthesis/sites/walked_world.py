"""Walks in one world, and what they brought about: the part of tasks from walks that all kinds of worlds share."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import ExpectedChange, expected_changes
from assay.environments.services.pages.site import Site
from assay.environments.services.plans import PlannedCall, play, wrong_plans
from assay.environments.services.world import ServiceWorld
from assay.records import Task

from .page_client import PageReader
from .walk_tree import Figures, WalkActs, WalkTree

_MOST_WRONG: Final = 40
"""Other ends on which a reward is tried."""


class NoTask(Exception):
    """An effect that becomes no task. The message is for the report."""


class Effect(NamedTuple):
    """Effect of a walk."""

    draft: Any
    """Form that the kind of world gave it, for its own use."""
    plan: Sequence[PlannedCall]
    changes: tuple[RowChange, ...]
    """Net changes at the end of the walk."""
    group: tuple[str, ...]
    """Names of what was done: tasks are taken from each group in turn."""


class WalkedWorld(ABC):
    """Walks in one world and the effects that can be asked for.

    Args:
        world: World at the start, which is not changed.
        parameters: Parameters of the environment that opens such a world.
    """

    def __init__(self, world: ServiceWorld, parameters: Mapping[str, Any]) -> None:
        self.world, self.parameters = world, parameters
        self.effects: dict[bytes, Effect] = {}
        self.figures: Figures | None = None
        self._reasons: dict[bytes, str] = {}

    @abstractmethod
    def acts(self, site: Site) -> WalkActs:
        """Returns what walks do on the pages."""

    @abstractmethod
    def read_effect(self, world: ServiceWorld) -> str:
        """Keeps the effect of a branch in `effects`, or returns why it means nothing."""

    @abstractmethod
    def draft_task(self, effect: Effect, named: tuple[int, int], outcomes: set[Any]) -> Task:
        """Returns the task of an effect, with the outcome of the walk; its first check is `state`.

        Args:
            effect: The effect.
            named: Seed and number of the task.
            outcomes: Keys of the outcomes of all tasks, to which that of this one is added.

        Raises:
            NoTask: It becomes no task.
        """

    @abstractmethod
    def write_reward(self, specification: str) -> tuple[ExpectedChange, ...]:
        """Returns what a text demands, from nothing but the text and a world at its start. Raises `Unreadable`."""

    async def walk(self, reader: PageReader, seed: int, walks: int) -> None:
        """Makes walks."""
        tree = WalkTree(reader, seed, self.acts(reader.site), self.read_effect)
        for _ in range(walks):
            await tree.walk()
        self.figures = tree.figures

    def in_turn(self) -> Iterator[Effect]:
        """Yields the effects, first one of each group, in the order in which they were found."""
        groups: dict[tuple[str, ...], list[Effect]] = {}
        for effect in self.effects.values():
            groups.setdefault(effect.group, []).append(effect)
        most = max((len(group) for group in groups.values()), default=0)
        for at in range(most):
            yield from (group[at] for group in groups.values() if at < len(group))

    def wrong_states(self, effect: Effect) -> Iterator[Sequence[RowChange]]:
        """Yields net changes of ends that are not the wanted one: of other walks, and of changed plans."""
        wanted = self._as_asked(effect.changes)
        plans = [
            [PlannedCall(call.name, call.parsed or {}) for call in calls]
            for calls in wrong_plans(self.world, effect.plan, self.world.seed).values()
        ]
        ends = [one.changes for one in self.effects.values()]
        ends += [tuple(play(self.world, calls).database.changes(judged_only=True)) for calls in plans]
        random.Random(self.world.seed).shuffle(ends)
        yield from [changes for changes in ends if self._as_asked(changes) != wanted][:_MOST_WRONG]

    def _as_asked(self, changes: Sequence[RowChange]) -> Any:
        return expected_changes(self.world.composition.tables, changes)


class Walkable(Protocol):
    """A kind of worlds in which walks are made."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is walked over."""
        ...

    def open(self, seed: int, number: int) -> WalkedWorld:
        """Returns a world, before its walks. Raises `UserError`."""
        ...


OpenReader = Callable[[WalkedWorld], PageReader]
"""Opens a reader at the start page of a world."""
