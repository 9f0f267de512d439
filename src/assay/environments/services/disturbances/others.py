"""Another user of the application, who acts between two calls of the agent."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from assay.environments.services.declaration import Action
from assay.environments.services.net_changes import RowChange
from assay.environments.services.plans import PlannedCall, is_for_agents, play_recorded, random_call
from assay.environments.services.world import ServiceWorld

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner

_TRIES: Final = 80
"""Random calls drawn for the acts of a world."""
_NOT_THEIRS: Final = frozenset({"clock", "conversation", "ticket"})
"""Services that belong to the agent or to the world."""

Key = tuple[str, tuple[str | int, ...]]
Row = dict[str, str | int | None] | None


class _OthersOptions(DisturbanceOptions, frozen=True):
    most: Annotated[int, Meta(ge=1, le=20)] = 3
    """Maximum number of acts."""


class Others(Disturbance):
    """Another user acts: legal writes on rows that the plan neither changes nor reads.

    Each act was tried before every call of the plan: all results stay the same, and the outcome is that of the plan and
    of the act. So the wanted outcome still holds. `rate` is the share of calls before which the user acts. `state`
    holds the number of the next act and the changes, which `subtract` takes out of what is judged.
    """

    kind = "others"
    Options = _OthersOptions

    def prepare(self) -> None:
        self._acts: list[PlannedCall] = []
        if self.options.rate > 0:
            self._acts = acts_beside_plan(self.world, self.draw_for("acts"), self.options.most)

    def call(self, call: Call, inner: Inner) -> Answer:
        at = self.state.get("next", 0)
        if at < len(self._acts) and self.draw(call.number).random() < self.options.rate:
            self.state["next"] = at + 1
            self._act(self._acts[at])
        return inner(call)

    def _act(self, act: PlannedCall) -> None:
        """Acts, unless the agent changed the same rows."""
        before = _final_rows(self.world.database.changes())
        tried = self.world.fork()
        tried.act_as_other(act.action, act.arguments)
        touched = _changed_rows(before, tried)
        if not touched or any(key in before for key in touched if not _is_bookkeeping(self.world, key)):
            return
        self.world.act_as_other(act.action, act.arguments)
        held = self.state.setdefault("changes", [])
        held += [[table, list(key), row] for (table, key), row in _changed_rows(before, self.world).items()]
        self.state["done"] = self.state.get("done", 0) + 1

    def subtract(self, changes: Sequence[RowChange]) -> tuple[RowChange, ...]:
        """Returns the net changes without those of the other user; what the agent did to such rows later is left."""
        theirs: dict[Key, Row] = {(table, tuple(key)): row for table, key, row in self.state.get("changes", [])}
        left = []
        for change in changes:
            key = (change.table, change.key)
            if key not in theirs:
                left.append(change)
            elif theirs.pop(key) != change.after:
                row = next(r for t, k, r in self.state["changes"][::-1] if (t, tuple(k)) == key)
                left.append(msgspec.structs.replace(change, before=row))
        # Rows that the agent put back as they were at first: to the user that is a change.
        judged = {table.sql_name for table in self.world.composition.tables if table.judged}
        left += [
            RowChange(table, key, row, _initial_row(self.world, table, key))
            for (table, key), row in theirs.items()
            if table in judged and not any((c.table, c.key) == (table, key) for c in changes)
        ]
        return tuple(sorted(left, key=lambda change: (change.table, [str(part) for part in change.key])))

    def facts(self) -> dict[str, Any]:
        return {"acts": self.state.get("done", 0), "changes": self.state.get("changes", [])}


def acts_beside_plan(
    world: ServiceWorld, draw: random.Random, most: int, is_allowed: Callable[[Action], bool] = lambda _: True
) -> list[PlannedCall]:
    """Returns random writes that neither meet the plan's rows nor change what its calls return, nor meet each other.

    Args:
        world: The world, with its plan, in its initial state.
        draw: Source of randomness.
        most: Maximum number of writes.
        is_allowed: Decides which actions may be called; default: all.
    """
    plan = world.plan
    undisturbed = [observation.content for _, observation in play_recorded(world, plan)]
    wanted = _rows_after(world, plan)
    chosen: list[PlannedCall] = []
    taken: set[Key] = set(wanted)
    scratch = world.fork()

    def may_call(action: Action) -> bool:
        is_theirs = is_for_agents(action) and action.service not in _NOT_THEIRS
        return is_theirs and not action.reads_only and is_allowed(action)

    for _ in range(_TRIES):
        if len(chosen) == most:
            break
        call = random_call(world, draw, may_call)
        if call is None:
            continue
        if scratch.act_as_other(call.action, call.arguments).error:
            continue  # it changed nothing
        rows = _final_rows(scratch.database.changes(judged_only=True))
        scratch.database.close()
        scratch = world.fork()
        if not rows or taken & rows.keys():
            continue
        if all(_leaves_plan(world, call, at, undisturbed, {**wanted, **rows}) for at in range(len(plan) + 1)):
            chosen.append(call)
            taken |= rows.keys()
    scratch.database.close()
    return chosen


def _leaves_plan(
    world: ServiceWorld, act: PlannedCall, at: int, undisturbed: Sequence[str], rows: Mapping[Key, Row]
) -> bool:
    """Returns whether an act, before the call of a number, leaves the plan's results and outcome as they are."""
    fork = world.fork()
    shown = []
    for number, call in enumerate(world.plan):
        if number == at:
            fork.act_as_other(act.action, act.arguments)
        shown.append(fork.act(call.action, call.arguments).content)
    if at == len(world.plan):
        fork.act_as_other(act.action, act.arguments)
    found = _final_rows(fork.database.changes(judged_only=True))
    fork.database.close()
    return shown == undisturbed and found == rows


def _rows_after(world: ServiceWorld, calls: Sequence[PlannedCall]) -> dict[Key, Row]:
    """Returns the judged rows that calls change, as they are afterwards; none if one of them is refused."""
    fork = world.fork()
    for call in calls:
        fork.act(call.action, call.arguments)
    found = _final_rows(fork.database.changes(judged_only=True))
    fork.database.close()
    return found


def _final_rows(changes: Iterable[RowChange]) -> dict[Key, Row]:
    return {(change.table, change.key): change.after for change in changes}


def _changed_rows(before: Mapping[Key, Row], after: ServiceWorld) -> dict[Key, Row]:
    """Returns the rows that differ from a state, which is given by its net changes."""
    now = _final_rows(after.database.changes())
    changed = {key: row for key, row in now.items() if key not in before or before[key] != row}
    gone = {key: _initial_row(after, *key) for key in before if key not in now}
    return changed | gone


def _initial_row(world: ServiceWorld, table: str, key: Sequence[str | int]) -> Row:
    """Returns a row that is as it was at first, from the present state."""
    found = next(one for one in world.composition.tables if one.sql_name == table)
    where = " AND ".join(f"{name} = ?" for name in found.key)
    values = world.database.connection.execute(f"SELECT * FROM {table} WHERE {where}", tuple(key)).fetchone()
    return None if values is None else dict(zip((c.name for c in found.columns), values, strict=True))


def _is_bookkeeping(world: ServiceWorld, key: Key) -> bool:
    """Returns whether a row is of a table that is not part of the outcome."""
    return not any(table.judged and table.sql_name == key[0] for table in world.composition.tables)
