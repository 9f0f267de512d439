"""Carries a plan out through disturbances: retries, looks after a time-out, turns pages, and takes new names over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay.environments.services.plans import PlannedCall
from assay.environments.services.world import ServiceWorld

from .interface import Answer

if TYPE_CHECKING:
    from .world import DisturbedWorld

_MOST_TRIES: Final = 60
"""Tries of one call; disturbances withhold a bounded number of calls in a row."""
_MOST_PAGES: Final = 500


def follow_plan(world: DisturbedWorld, plan: Sequence[PlannedCall]) -> list[PlannedCall]:
    """Returns the calls by which an agent that retries carries a plan out, from the world's present state.

    A withheld call is made again, with the new names if names have changed. After a time-out of a write it looks, by a
    view whose result shows whether the write was made, and repeats the write only if it was not.
    """
    follower = _Follower(world.fork())
    for call in plan:
        follower.carry_out(call)
    return follower.made


class _Follower:
    def __init__(self, world: DisturbedWorld) -> None:
        self._world = world
        self._has_new_names = False
        self.made: list[PlannedCall] = []

    def carry_out(self, call: PlannedCall) -> None:
        """Makes a call until the service has answered it."""
        service = self._world.service
        for _ in range(_MOST_TRIES):
            before, answered = service.fork(), service.answered
            cause = self._call(call)
            if not cause:
                return
            self._has_new_names = self._has_new_names or cause == "drift"
            if cause == "slow" and self._is_write(call):
                look = _view_that_shows(before, call)
                if look is not None:
                    self._call(look)
                if any(one.role == "agent" and one.action == call.action for one in service.calls[answered:]):
                    return

    def _call(self, call: PlannedCall) -> str:
        """Makes a call, and reads its pages to the end; returns what withheld its result."""
        answer = self._send(call)
        cursor = answer.cursor
        for _ in range(_MOST_PAGES):
            if not cursor:
                break
            page = self._send(PlannedCall(self._world.page_tool, {"cursor": cursor}))
            self._has_new_names = self._has_new_names or page.cause == "drift"
            cursor = page.cursor if page.code is None else cursor if page.cause else ""
        return answer.cause

    def _send(self, call: PlannedCall) -> Answer:
        outward = self._world.outward(call, has_new_names=self._has_new_names)
        self.made.append(outward)
        return self._world.answer(outward.action, outward.arguments)

    def _is_write(self, call: PlannedCall) -> bool:
        action = self._world.service.composition.actions.get(call.action)
        return action is not None and not action.reads_only


def _view_that_shows(before: ServiceWorld, write: PlannedCall) -> PlannedCall | None:
    """Returns a view, by arguments of a write, whose result shows whether the write was made since `before`."""
    done = before.fork()
    done.act(write.action, write.arguments)
    for view in before.composition.actions.values():
        required = view.parameters.get("required", ())
        if not view.reads_only or "agent" not in view.roles or not all(name in write.arguments for name in required):
            continue
        look = PlannedCall(view.name, {name: write.arguments[name] for name in required})
        if before.peek(look.action, look.arguments) != done.peek(look.action, look.arguments):
            return look
    return None
