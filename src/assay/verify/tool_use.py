"""Process measures of the calls of an attempt on services: completeness, efficiency, and precision of tool use.

They are computed from the world's own log and net changes, and from the reference plan of the task. None of them
decides the outcome: a right attempt may make more calls than the plan, and a short one may be wrong.

Covered: which rows each call changed, by doing the logged calls again in a fresh world, as long as every state has the
logged digest. Not covered: requirements of the checks `answer` and `policy`; calls to the person, which are measured as
a conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.clock import clock
from assay.environments.services.conversation import conversation
from assay.environments.services.net_changes import RowChange
from assay.environments.services.options import WorldOptions
from assay.environments.services.world import LoggedCall, ServiceWorld
from assay.environments.wrapping import WRAP
from assay.errors import AssayError, TaskError
from assay.records import Task
from assay.verify.state_check import BestMatch, StateCheck, StateParameters, find_best_match

MOST_REPLAYED: Final = 2_000
"""Logged calls beyond which they are not done again."""
_TALK: Final = frozenset(action.name for action in conversation.actions.values())
_NOT_WRITES: Final = frozenset({clock.name, conversation.name})

Row = tuple[str, tuple[str | int, ...]]
"""Table and key."""


class Completeness(NamedTuple):
    """Requirements that doing nothing misses."""

    met: int
    required: int


class CallCount(NamedTuple):
    """Calls of the agent to the applications, and those of the reference plan; calls to the person are left out."""

    made: int
    reference: int

    @property
    def efficiency(self) -> float | None:
        """Calls of the plan for each call that was made, at most 1; None without calls."""
        return None if self.made == 0 else min(1.0, self.reference / self.made)


class WriteCount(NamedTuple):
    """Reads and writes of the agent."""

    reads: int
    reference_reads: int
    writes: int
    """Calls of actions that can change the applications, refused ones included."""
    wanted: int
    """Those that changed rows, all of which are in the end as a wanted outcome has them."""

    @property
    def precision(self) -> float | None:
        """Share of the writes that are wanted; None without writes."""
        return None if self.writes == 0 else self.wanted / self.writes


def match_state(task: Task, facts: Mapping[str, Any]) -> BestMatch | None:
    """Returns the match of a task's check `state` with the facts of a final state; None if there is none to judge."""
    check = next((check for check in task.checks if check.kind == StateCheck.kind), None)
    if check is None:
        return None
    try:
        parameters = msgspec.convert(check.parameters, StateParameters)
        changes = msgspec.convert(facts.get("changes"), tuple[RowChange, ...])
        return find_best_match(parameters, changes) if parameters.outcomes else None
    except (msgspec.ValidationError, TaskError):
        return None


def count_requirements(found: BestMatch) -> Completeness:
    """Returns how many of the requirements that doing nothing misses are met; what must stay is left out."""
    required = [one for one in found.match.requirements if not one.null_holds]
    return Completeness(sum(one.held for one in required), len(required))


def count_calls(calls: Iterable[LoggedCall], task: Task) -> CallCount | None:
    """Returns the agent's calls beside those of the task's plan; None without a plan."""
    plan = _plan(task)
    if not plan:
        return None
    made = sum(call.role == "agent" and call.action not in _TALK for call in calls)
    return CallCount(made, sum(action not in _TALK for action in plan))


def _plan(task: Task) -> list[str]:
    """Returns the actions of a task's reference plan."""
    plan = task.environment.parameters.get("plan", ())
    listed = plan if isinstance(plan, list | tuple) else ()
    return [str(call["action"]) for call in listed if isinstance(call, Mapping) and "action" in call]


def count_writes(calls: Sequence[LoggedCall], task: Task, found: BestMatch) -> WriteCount | None:
    """Returns the reads and writes of an agent, and which writes were wanted.

    The world is made again, so that the services which the task names are loaded: only for a task whose services may
    run here. A write to tables that the check leaves to others is not counted.

    Returns:
        None if the calls lead to other states now, or are too many.
    """
    if len(calls) > MOST_REPLAYED:
        return None
    given = task.environment.parameters
    parameters = {name: given[name] for name in WorldOptions.__struct_fields__ if name in given and name != WRAP}
    try:
        world = ServiceWorld(parameters, task.environment.seed)
    except (ValueError, AssayError):
        return None
    try:
        changed = replay_calls(world, calls)
        return None if changed is None else _count(world, calls, changed, task, found)
    except AssayError:
        return None
    finally:
        world.database.close()


def _count(
    world: ServiceWorld, calls: Sequence[LoggedCall], changed: Sequence[frozenset[Row]], task: Task, found: BestMatch
) -> WriteCount:
    actions = world.composition.actions
    ours = {name for name, action in actions.items() if action.service not in _NOT_WRITES}
    reads = {name for name in ours if actions[name].reads_only}
    wanted_rows = {(found.observed[at].table, found.observed[at].key) for at in found.match.assigned}
    check = next(check for check in task.checks if check.kind == StateCheck.kind)
    ignored = frozenset(check.parameters.get("ignored", ()))
    made = [(call, rows) for call, rows in zip(calls, changed, strict=True) if call.role == "agent"]
    writes = [
        _judged(rows, ignored)
        for call, rows in made
        if call.action in ours - reads and not (rows and not _judged(rows, ignored))
    ]
    return WriteCount(
        reads=sum(call.action in reads for call, _ in made),
        reference_reads=sum(action in reads for action in _plan(task)),
        writes=len(writes),
        wanted=sum(bool(rows) and rows <= wanted_rows for rows in writes),
    )


def _judged(rows: frozenset[Row], ignored: Collection[str]) -> frozenset[Row]:
    return frozenset(row for row in rows if row[0] not in ignored)


def replay_calls(world: ServiceWorld, calls: Iterable[LoggedCall]) -> list[frozenset[Row]] | None:
    """Does logged calls again in a world, and returns the judged rows that each changed; None if a state is not the
    logged one. Calls that were refused changed nothing and are left out."""
    changed: list[frozenset[Row]] = []
    before: dict[Row, Any] = {}
    for call in calls:
        if call.code is not None:
            changed.append(frozenset())
            continue
        if call.role == "other":
            world.act_as_other(call.action, call.arguments)
        else:
            world.act(call.action, call.arguments, call.role)
        done = world.calls[-1]
        if done.code is not None or done.digest != call.digest:
            return None
        after: dict[Row, Any] = before
        if not world.composition.actions[call.action].reads_only:
            after = {(one.table, one.key): one.after for one in world.database.changes(judged_only=True)}
        missing = object()
        rows = (row for row in {**before, **after} if before.get(row, missing) != after.get(row, missing))
        changed.append(frozenset(rows))
        before = after
    return changed
