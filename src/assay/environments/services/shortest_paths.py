"""Shortest ways to what a plan brings about, and how like one of them the calls of an attempt are.

In a world of one state machine, each shortest way to the state that the plan ends in counts, found breadth first from
the state in which the attempt is. In other worlds the plan itself is the only way, and an attempt is as far on it as
its calls are those of the plan, in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from assay.records import canonical_bytes

from .machines.compile import CODE
from .machines.machine import Machine, Start, read_machine
from .machines.search import Node, Reach, Step, WaysBack, explore
from .plans import PlannedCall

MOST_COMPARED: Final = 500
"""Steps of an attempt that are compared with shortest ways; further ones only count."""


class DueStep(NamedTuple):
    """A step of a shortest way."""

    key: Hashable
    """Equal for equal steps, whatever code they gave."""
    call: PlannedCall
    after: Hashable
    """Place that it leads to."""


class Ways(Protocol):
    """All shortest ways from the start of an attempt to the end of its plan. A place on them is opaque."""

    @property
    def start(self) -> Hashable:
        """Place at which the attempt began."""

    def left(self, place: Any) -> int | None:
        """Returns the number of steps that are left; None if no way leads to the end any more."""

    def due(self, place: Any) -> Iterable[DueStep]:
        """Returns the first steps of shortest ways from a place; none at the end and where no way leads to it."""

    def advance(self, place: Any, action: str, arguments: object) -> tuple[Hashable, Hashable] | None:
        """Returns key and place after a call that succeeded; None for a call that is no step."""


class MachineWays:
    """Ways over a state machine.

    Args:
        machine: The machine.
        start: State in which the attempt began.
        plan: Calls that lead to the wanted state.
        codes: Codes of the world by name; default: the calls of `due` have none.

    Raises:
        ValueError: The machine is too large, or the plan is refused.
    """

    def __init__(
        self, machine: Machine, start: Start, plan: Sequence[PlannedCall], codes: Mapping[str, str] | None = None
    ) -> None:
        self._reach: Reach = explore(machine, start)
        self._codes = codes or {}
        node = self._reach.start
        self.start: Hashable = node
        for call in plan:
            found = self._reach.follow_call(node, call.action, call.arguments)
            if found is None:
                raise ValueError(f"the call {call.action} of the plan is refused")
            node = found[1]
        self._back: WaysBack = self._reach.ways_back(node.state)

    def left(self, place: Node) -> int | None:
        return self._back[place][0] if place in self._back else None

    def due(self, place: Node) -> Iterator[DueStep]:
        for step, after in self._reach.due_steps(place, self._back):
            code = self._codes.get(step.transition.code)
            given = {**dict(step.given), **({} if code is None else {CODE: code})}
            yield DueStep(_key(step), PlannedCall(step.transition.name, given), after)

    def advance(self, place: Node, action: str, arguments: object) -> tuple[Hashable, Hashable] | None:
        found = self._reach.follow_call(place, action, arguments)
        return None if found is None else (_key(found[0]), found[1])


def _key(step: Step) -> Hashable:
    return step.transition.name, step.given


class PlanWays:
    """A plan as the only way; a place is the number of its calls that were made."""

    def __init__(self, plan: Sequence[PlannedCall]) -> None:
        self.start: Hashable = 0
        self._steps = [(canonical_bytes([call.action, call.arguments]), call) for call in plan]

    def left(self, place: int) -> int:
        return len(self._steps) - place

    def due(self, place: int) -> Iterator[DueStep]:
        for key, call in self._steps[place : place + 1]:
            yield DueStep(key, call, place + 1)

    def advance(self, place: int, action: str, arguments: object) -> tuple[Hashable, Hashable]:
        key = canonical_bytes([action, arguments])
        return key, place + any(key == due.key for due in self.due(place))


def read_ways(parameters: Mapping[str, Any], codes: Mapping[str, str] | None = None) -> Ways | None:
    """Returns the ways of a world; None without a plan.

    Args:
        parameters: Parameters of the world's environment.
        codes: Codes of its machine, by name.

    Raises:
        ValueError: The parameters are invalid, the machine is too large, or its plan is refused.
    """
    try:
        plan = msgspec.convert(parameters.get("plan", ()), tuple[PlannedCall, ...])
    except msgspec.ValidationError as exc:
        raise ValueError(f"the plan of the world: {exc}") from exc
    if not plan:
        return None
    only = only_machine(parameters)
    return PlanWays(plan) if only is None else MachineWays(*only, plan, codes)


def only_machine(parameters: Mapping[str, Any]) -> tuple[Machine, Start] | None:
    """Returns the machine of a world that is one machine and nothing else, and its start; None for other worlds.
    Raises `ValueError`."""
    machines = parameters.get("machines")
    if not isinstance(machines, list | tuple) or len(machines) != 1 or parameters.get("services"):
        return None
    machine = read_machine(machines[0])
    try:
        return machine, msgspec.convert(parameters.get("knobs", {}).get(machine.name, {}).get("start", {}), Start)
    except (AttributeError, msgspec.ValidationError) as exc:
        raise ValueError(f"the start of the machine: {exc}") from exc


def similarity(ways: Ways, taken: Sequence[Hashable]) -> float:
    """Returns how like the nearest shortest way some steps are: twice their longest common subsequence, over the sum of
    both lengths; 1 for a shortest way, 0 for steps that are on none.

    Args:
        ways: The ways.
        taken: Keys of the steps that were taken, in order.
    """
    shortest = ways.left(ways.start)
    if shortest is None:
        return 0.0
    compared = taken[:MOST_COMPARED]
    best = _common(ways, ways.start, compared)
    return 2 * best / (shortest + len(taken)) if shortest or taken else 1.0


def _common(ways: Ways, start: Hashable, taken: Sequence[Hashable]) -> int:
    """Returns the longest common subsequence of some steps with any way from a place to the end.

    Places are taken layer by layer from the end; `rows[place][at]` is that of the steps from `at` on.
    """
    layers: list[dict[Hashable, list[DueStep]]] = [{start: list(ways.due(start))}]
    while any(layers[-1].values()):
        places = dict.fromkeys(step.after for steps in layers[-1].values() for step in steps)
        layers.append({place: list(ways.due(place)) for place in places})
    rows: dict[Hashable, list[int]] = {}
    for layer in reversed(layers):
        below, rows = rows, {}
        for place, steps in layer.items():
            row = [0] * (len(taken) + 1)
            for at in reversed(range(len(taken))):
                row[at] = max(
                    row[at + 1],
                    *(max(below[one.after][at], (one.key == taken[at]) + below[one.after][at + 1]) for one in steps),
                    0,
                )
            rows[place] = row
    return rows[start][0]
