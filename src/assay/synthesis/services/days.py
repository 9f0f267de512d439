"""Spreads the requests of a task over several days: waits between them, during which the world's events happen.

A wait is part of a request, in whole hours, so that every right path ends at the same time. An event matters to a
request if the world refuses it before the wait, or if the wait changes a record that it names.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from assay.environments.services.clock import clock
from assay.environments.services.plans import PlannedCall
from assay.environments.services.world import ServiceWorld

from .instruction import Wish
from .walk import Walk, Walker

WAIT: Final = "wait"
_MOST_HOURS: Final = 24 * 31
"""Hours of one call."""


def draw_waits(days: int, writes: int, draw: random.Random) -> tuple[int, ...]:
    """Returns the days to wait before each write, with that sum; before the first only where it is the only one."""
    gaps = writes - 1 or 1
    waits = [1 if at < days else 0 for at in range(gaps)]
    for _ in range(max(0, days - gaps)):
        waits[draw.randrange(gaps)] += 1
    return tuple(waits) if writes == 1 else (0, *waits)


def wait_calls(days: int) -> list[PlannedCall]:
    """Returns the calls that let days pass."""
    hours = days * 24
    lengths = [_MOST_HOURS] * (hours // _MOST_HOURS) + [hours % _MOST_HOURS] * bool(hours % _MOST_HOURS)
    return [PlannedCall(WAIT, {"hours": length}) for length in lengths]


def walk_over_days(walker: Walker, waits: Sequence[int], draw: random.Random) -> Walk | None:
    """Returns a walk with waits before its writes, in the plan alone; None if this try led to none."""
    walk = walker.walk(len(waits), draw, pauses=[wait_calls(days) for days in waits])
    if walk is None:
        return None
    reads = walk.plan[: len(walk.plan) - len(walk.writes)]
    plan = [*reads]
    for days, call in zip(waits, walk.writes, strict=True):
        plan += [*wait_calls(days), call]
    return walk._replace(plan=tuple(plan))


def with_wait(wish: Wish, days: int) -> Wish:
    """Returns a wish that asks for a wait first."""
    if not days:
        return wish
    return wish._replace(template=f"wait exactly {days * 24} hours, and after that {wish.template}")


def event_matters(world: ServiceWorld, walk: Walk) -> bool:
    """Returns whether what happens in a wait matters to a later write: it would be refused before, or the wait changes
    a record whose identifier it names."""
    done = world.fork()
    for at, call in enumerate(walk.plan):
        if call.action != WAIT:
            done.act(call.action, call.arguments)
            continue
        before = done.fork()
        done.act(call.action, call.arguments)
        changed = _changed_keys(before, done)
        for later in walk.plan[at + 1 :]:
            if later in walk.writes:
                named = {value for value in later.arguments.values() if isinstance(value, str)}
                if named & changed or before.act(later.action, later.arguments).error:
                    return True
    return False


def _changed_keys(before: ServiceWorld, after: ServiceWorld) -> set[str]:
    """Returns the keys of the rows, outside of the clock, that differ between two states of a world."""
    first, second = ({(one.table, one.key): one.after for one in world.database.changes()} for world in (before, after))
    missing = object()
    return {
        str(part)
        for at in first.keys() | second.keys()
        if first.get(at, missing) != second.get(at, missing) and not at[0].startswith(f"{clock.name}_")
        for part in at[1]
    }
