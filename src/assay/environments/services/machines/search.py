"""Breadth-first search over a state machine: what can be reached from a state, and by which shortest way.

A node of the search is a state and the codes that were seen on the way to it, because a step that asks for a code is
possible only for somebody who read it. Steps with one argument more count once for each of its values.

The order of the search is that of the declaration, so that of several shortest ways the same one is always found.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import msgspec

from assay.records import canonical_bytes

from .machine import Machine, Start, State, Transition, Value

MOST_NODES: Final = 60_000
"""Nodes beyond which a machine is too large to be searched."""
MOST_TRIES: Final = 600_000
"""Steps that a search tries, because few nodes may have very many of them."""


class Node(NamedTuple):
    """A state, and the codes that were seen before and in it."""

    state: State
    seen: frozenset[str]


class Step(NamedTuple):
    """A transition with the values that it asks for."""

    transition: Transition
    given: tuple[tuple[str, Value], ...]


WaysBack = Mapping[Node, tuple[int, Step | None]]
"""How many steps each node is from a state, and the first of them."""


class TooLarge(ValueError):
    """A machine with more nodes than are searched."""


class Reach:
    """All nodes that can be reached from a start.

    Args:
        machine: The machine.
        start: State in which the world begins.

    Raises:
        TooLarge: There are too many.
    """

    def __init__(self, machine: Machine, start: Start | None = None) -> None:
        self.machine = machine
        self.start = _arrive(machine, machine.begin(start), frozenset())
        self.distances: dict[Node, int] = {self.start: 0}
        """Number of steps from the start, in the order in which nodes were found."""
        self._came_by: dict[Node, tuple[Node, Step]] = {}
        self._before: dict[Node, list[tuple[Node, Step]]] = {}
        waiting, tried = deque([self.start]), 0
        while waiting:
            node = waiting.popleft()
            tried += machine.tries[node.state.screen]
            if tried > MOST_TRIES:
                raise TooLarge(f"the machine {machine.name} has more than {MOST_TRIES} steps to try")
            for step, reached in steps_from(machine, node):
                self._before.setdefault(reached, []).append((node, step))
                if reached not in self.distances:
                    if len(self.distances) >= MOST_NODES:
                        raise TooLarge(f"the machine {machine.name} has more than {MOST_NODES} nodes to search")
                    self.distances[reached] = self.distances[node] + 1
                    self._came_by[reached] = node, step
                    waiting.append(reached)

    @cached_property
    def states(self) -> dict[State, int]:
        """The states that can be reached, with the number of steps to each, the nearest first."""
        found: dict[State, int] = {}
        for node, distance in self.distances.items():
            found.setdefault(node.state, distance)
        return found

    @cached_property
    def unread_states(self) -> frozenset[State]:
        """The states that can be reached by steps that ask for no code."""
        found, waiting = {self.start.state}, [self.start.state]
        while waiting:
            for step, state in _steps(self.machine, waiting.pop()):
                if not step.transition.code and state not in found:
                    found.add(state)
                    waiting.append(state)
        return frozenset(found)

    def way_to(self, goal: State) -> tuple[Step, ...] | None:
        """Returns a shortest way from the start to a state; None if it cannot be reached."""
        node = next((one for one in self.distances if one.state == goal), None)
        if node is None:
            return None
        way: list[Step] = []
        while node != self.start:
            node, step = self._came_by[node]
            way.append(step)
        return tuple(reversed(way))

    def ways_back(self, goal: State) -> WaysBack:
        """Returns how many steps each node is from a state, and the first one; nodes without a way are absent."""
        found: dict[Node, tuple[int, Step | None]] = {one: (0, None) for one in self.distances if one.state == goal}
        waiting = deque(found)
        while waiting:
            node = waiting.popleft()
            for before, step in self._before.get(node, ()):
                if before not in found:
                    found[before] = found[node][0] + 1, step
                    waiting.append(before)
        return found

    def follow(self, node: Node, step: Step) -> Node | None:
        """Returns the node after a step; None if it is refused."""
        state = self.machine.step(node.state, step.transition, dict(step.given))
        return None if isinstance(state, str) else _arrive(self.machine, state, node.seen)

    def follow_call(self, node: Node, action: str, arguments: object) -> tuple[Step, Node] | None:
        """Returns the step that a call of a world's log took, and the node after it; None for a call that takes none. A
        code that the call gave counts as seen, although it may have been guessed."""
        transition = self.machine.by_transition.get(action)
        if transition is None or not isinstance(arguments, Mapping):
            return None
        if transition.code and transition.code not in node.seen:
            node = node._replace(seen=node.seen | {transition.code})
        step = Step(transition, tuple((name, arguments[name]) for name in transition.asks if name in arguments))
        after = self.follow(node, step) if len(step.given) == len(transition.asks) else None
        return None if after is None else (step, after)

    def due_steps(self, node: Node, back: WaysBack) -> Iterator[tuple[Step, Node]]:
        """Yields the steps of shortest ways from a node, and where they lead; `back` is of `ways_back`."""
        left = back[node][0] if node in back else 0
        if left:
            for step, after in steps_from(self.machine, node):
                if after in back and back[after][0] == left - 1:
                    yield step, after


def explore(machine: Machine, start: Start) -> Reach:
    """Returns all that can be reached from a start; that of the machines asked last is held.

    Raises:
        TooLarge: It is too much.
    """
    return _explored(canonical_bytes(machine), canonical_bytes(start))


@lru_cache(maxsize=8)
def _explored(machine: bytes, start: bytes) -> Reach:
    decoded = msgspec.json.decode(machine, type=Machine)  # of its own, so that what it holds goes with the search
    return Reach(decoded, msgspec.json.decode(start, type=Start))


def steps_from(machine: Machine, node: Node) -> Iterator[tuple[Step, Node]]:
    """Yields the steps that are possible at a node, and where they lead."""
    for step, state in _steps(machine, node.state):
        if not step.transition.code or step.transition.code in node.seen:
            yield step, _arrive(machine, state, node.seen)


def _steps(machine: Machine, state: State) -> tuple[tuple[Step, State], ...]:
    """Returns the steps that are possible in a state for somebody who knows all codes, and where they lead."""
    found = machine.known_steps.get(state)
    if found is None:
        found = machine.known_steps[state] = tuple(_find_steps(machine, state))
    return found


def _find_steps(machine: Machine, state: State) -> Iterator[tuple[Step, State]]:
    for transition in machine.leaving[state.screen]:
        for values in itertools.product(*(machine.by_variable[name].domain for name in transition.asks)):
            given = tuple(zip(transition.asks, values, strict=True))
            reached = machine.step(state, transition, dict(given))
            if not isinstance(reached, str):
                yield Step(transition, given), reached


def _arrive(machine: Machine, state: State, seen: Collection[str]) -> Node:
    shown = machine.codes_on[state.screen]
    return Node(state, frozenset((*seen, *shown)) if shown else frozenset(seen))
