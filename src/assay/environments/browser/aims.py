"""Compares what acts on pages aimed at with what the shortest ways mean there.

Before an act on an element or at coordinates, the elements are found that any shortest way to the end of the plan may
use next: links nearer to a form, controls that do not have their value yet, the button. The act is right if its element
is one of them, or its point lies in the box of one.

Covered: several shortest ways over a state machine, ways back after a detour, forms filled in any order. Not covered:
keys, drags and scrolling, which are counted as well formed and never as right or wrong; what is entered, which the
state judges; the label of a control as a target; another order of a plan that is not of a state machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.machines.compile import read_codes
from assay.environments.services.pages.site import Site
from assay.environments.services.shortest_paths import Ways, only_machine, read_ways
from assay.environments.services.world import ServiceWorld

from .guide import due_elements
from .screen import Aim, Point, Target
from .tab import ActProblem, Tab
from .vocabulary import Clear, Click, DblClick, Fill, MouseClick, MouseDblClick, SelectOption, UploadFile

MOST_ACTS: Final = 2_000
"""Acts of which a reward is noted."""
MOST_NAME: Final = 200
"""Characters of the name of a target."""


class Reward(NamedTuple):
    """Reward of an act."""

    step: int
    reward: float
    """1 for an act that aimed at a target, else 0."""
    progress: float
    """Share of the shortest way that was done after it."""
    error: bool


class Aims:
    """Judges the aims of one attempt.

    Args:
        parameters: Parameters of the world.
        service: The world.
        site: Its pages.

    Raises:
        ValueError: The world has no plan, or its plan is refused.
    """

    def __init__(self, parameters: Mapping[str, Any], service: ServiceWorld, site: Site) -> None:
        only = only_machine(parameters)
        ways = read_ways(parameters, None if only is None else read_codes(service.database, only[0]))
        if ways is None:
            raise ValueError("aims=true is for tasks with a plan")
        self._ways: Ways = ways
        self._service, self._site = service, site
        self._place: Hashable = ways.start
        self._read = 0
        self.rewards: list[Reward] = []

    async def judge(self, act: msgspec.Struct | None, tab: Tab | None) -> Aim:
        """Returns the aim of an act that is about to be done; None is one that is not well formed."""
        if act is None or tab is None or type(act) not in _AT_ELEMENT | _AT_POINT:
            return Aim(act is not None)
        targets = await self._targets(tab)
        return Aim(True, _is_right(act, targets), targets)

    def reward(self, aim: Aim, step: int, *, error: bool) -> None:
        """Notes the reward of an act that was done."""
        if len(self.rewards) < MOST_ACTS:
            self.rewards.append(Reward(step, float(aim.right is True), self._progress(), error))

    def _progress(self) -> float:
        self._advance()
        whole, left = self._ways.left(self._ways.start), self._ways.left(self._place)
        if left is None or not whole:
            return float(left == 0)
        return max(1 - left / whole, 0.0)

    def _advance(self) -> None:
        """Follows the calls that were made since the last act."""
        for call in self._service.calls[self._read :]:
            if call.code is None and call.role == "agent":
                found = self._ways.advance(self._place, call.action, call.arguments)
                self._place = self._place if found is None else found[1]
        self._read = len(self._service.calls)

    async def _targets(self, tab: Tab) -> tuple[Target, ...]:
        self._advance()
        due = [due_elements(self._site, one.call, tab) for one in self._ways.due(self._place)]
        elements = {number: tab.numbering.elements[number] for number in sorted(frozenset().union(*due))}
        numbers = {element.number: number for number, element in elements.items()}
        try:
            seen = await tab.evaluate("seen", list(numbers)) if numbers else []
        except ActProblem:  # the page is gone
            seen = []
        boxes = {numbers[one]: (int(left), int(top), int(wide), int(high)) for one, left, top, wide, high in seen or []}
        return tuple(
            Target(str(number), element.node.r, element.node.t[:MOST_NAME], boxes.get(number))
            for number, element in elements.items()
        )


_AT_ELEMENT: Final = frozenset({Click, DblClick, Fill, Clear, SelectOption, UploadFile})
_AT_POINT: Final = frozenset({MouseClick, MouseDblClick})


def _is_right(act: Any, targets: Sequence[Target]) -> bool:
    if type(act) in _AT_POINT:
        return any(one.box is not None and contains(one.box, Point(act.x, act.y)) for one in targets)
    return act.bid.strip().removeprefix("[").removesuffix("]") in {one.bid for one in targets}


def contains(box: tuple[int, int, int, int], at: Point) -> bool:
    """Returns whether a point lies in a box, whose right and lower edges are outside of it."""
    left, top, width, height = box
    return left <= at.x < left + width and top <= at.y < top + height
