"""Draws plans: writes that the world accepts, and before them the reads through which their arguments can be known.

The graph "which view gives what which action takes" follows from the kinds of identifiers in signatures. A walk draws a
write whose arguments belong together (rows that refer to each other), tries it on a fork, and keeps it if the world
accepts it and something changes. Then each identifier is looked for backwards, from views that give its kind to what a
person can know by heart: names, addresses, dates and words, never generated identifiers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.declaration import Action
from assay.environments.services.plans import PlannedCall, identifiers
from assay.environments.services.schema import Table
from assay.environments.services.transaction import shift_time
from assay.environments.services.world import ServiceWorld

TRIES: Final = 60
"""Arguments drawn for one write before another action is drawn."""
_DEPTH: Final = 3
"""Views in a row that lead to an identifier."""
_TOGETHER: Final = 0.9
"""Share of identifiers that are drawn among rows connected with those drawn before."""
_NEIGHBOURS: Final = 60
_TEXTS: Final = ("no longer needed", "as discussed on the phone", "it was entered twice", "a change of plans")

Row = tuple[Table, tuple[Any, ...]]


class PersonFact(NamedTuple):
    """Something that a person has to tell, because a read needs it."""

    kind: str
    value: str


class Walk(NamedTuple):
    """A plan and where its arguments come from."""

    plan: tuple[PlannedCall, ...]
    writes: tuple[PlannedCall, ...]
    known: tuple[PersonFact, ...]
    """Facts that the person must tell beside their wishes, each once."""


class Walker:
    """Draws walks in one world, which it does not change."""

    def __init__(self, world: ServiceWorld) -> None:
        self._world = world
        self._draw = random.Random(0)
        self._rows: dict[str, list[Row]] = {}
        self._linked: dict[str, dict[str, set[str]]] = {}
        self._actions = [
            action
            for action in world.composition.actions.values()
            if action.wish and not action.reads_only and "agent" in action.roles
        ]
        self._views = sorted(
            (a for a in world.composition.actions.values() if a.reads_only and "agent" in a.roles and a.gives),
            key=lambda action: (len(action.parameters.get("required", ())), action.name),
        )

    def walk(self, writes: int, draw: random.Random) -> Walk | None:
        """Returns a walk with so many writes; None if this try led to none."""
        self._draw = draw
        changed = self._world.fork()
        chosen: list[PlannedCall] = []
        used: list[str] = []
        for _ in range(writes):
            call = self._write(changed, [c.action for c in chosen], used)
            if call is None:
                changed.database.close()
                return None
            chosen.append(call)
        changed.database.close()
        return self._with_reads(chosen)

    # Writes.

    def _write(self, changed: ServiceWorld, before: Sequence[str], used: list[str]) -> PlannedCall | None:
        """Draws a write, calls it in `changed`, and adds its identifiers to `used`; None if none was accepted."""
        fresh = [action for action in self._actions if action.name not in before]
        if not fresh:
            return None
        action = self._draw.choice(fresh)
        for _ in range(TRIES):
            call = self._arguments(action, used)
            if call is None:
                return None
            digest = _judged(changed)
            if not changed.act(call.action, call.arguments).error and _judged(changed) != digest:
                used += [str(call.arguments[name]) for name in action.takes if name in call.arguments]
                return call
        return None

    def _arguments(self, action: Action, used: Sequence[str]) -> PlannedCall | None:
        required = set(action.parameters.get("required", ()))
        spoken = set(re.findall(r"{(\w+)", action.wish))
        near = list(used)
        arguments: dict[str, Any] = {}
        for name, schema in action.parameters.get("properties", {}).items():
            if name not in required | spoken:
                continue
            value = self._value(action, name, schema, near)
            if value is None:
                if name in required:
                    return None
                continue
            arguments[name] = value
            if name in action.takes:
                near.insert(0, str(value))
        return PlannedCall(action.name, arguments)

    def _value(self, action: Action, name: str, schema: Mapping[str, Any], near: Sequence[str]) -> Any:
        draw = self._draw
        if name in action.takes:
            kind = action.takes[name]
            if near and draw.random() < _TOGETHER:
                connected = sorted(self._connected(kind, near[: 1 if draw.random() < 0.5 else len(near)]))
                if connected:
                    return draw.choice(connected)
            known = identifiers(self._world, kind)
            return draw.choice(known) if known else None
        options = schema.get("anyOf")
        if options:
            schema = next((option for option in options if option.get("type") != "null"), schema)
        if "enum" in schema:
            return draw.choice(schema["enum"])
        of_type = schema.get("type")
        if of_type == "boolean":
            return draw.random() < 0.5
        if of_type == "integer":
            low = schema.get("minimum", 1)
            high = min(schema.get("maximum", low + 9_999), low + 9_999)
            return min(high, low + int((high - low + 1) ** draw.random()) - 1)
        if of_type == "string":
            pattern = schema.get("pattern", "")
            if "T" in pattern or r"\d{2}$" in pattern:
                day = self._day(draw.randint(1, 28))
                return f"{day}T{draw.randint(8, 17):02}:00" if "T" in pattern else day
            return None if pattern else draw.choice(schema.get("examples", _TEXTS))
        return None

    def _day(self, after: int) -> str:
        return shift_time(self._world.now[:10], days=after)

    def _connected(self, kind: str, values: Iterable[str]) -> set[str]:
        """Returns the identifiers of a kind in rows at most two references away from rows that hold the values."""
        found: set[str] = set()
        for value in values:
            linked = self._linked.get(value)
            if linked is None:
                near = self._rows_with(value)
                further = [row for other in _identifiers_of(near)[:_NEIGHBOURS] for row in self._rows_with(other)]
                linked = self._linked[value] = _by_kind([*near, *further])
            found |= linked.get(kind, set())
        return found

    def _rows_with(self, value: str) -> list[Row]:
        """Returns the first rows of each table that hold an identifier."""
        rows = self._rows.get(value)
        if rows is None:
            execute = self._world.database.connection.execute
            rows = []
            for table in self._world.composition.tables:
                columns = [column.name for column in table.columns if column.identifier]
                if columns:
                    where = " OR ".join(f"{name} = ?" for name in columns)
                    query = f"SELECT * FROM {table.sql_name} WHERE {where} LIMIT {_NEIGHBOURS}"
                    rows += [(table, row) for row in execute(query, [value] * len(columns))]
            self._rows[value] = rows
        return rows

    # Reads.

    def _with_reads(self, writes: Sequence[PlannedCall]) -> Walk | None:
        """Puts the reads before the writes; None if an identifier cannot be found by reading."""
        reads: list[PlannedCall] = []
        known: list[PersonFact] = []
        found: set[str] = set()
        for call in writes:
            action = self._world.composition.actions[call.action]
            for name, kind in action.takes.items():
                value = call.arguments.get(name)
                if value is None or str(value) in found:
                    continue
                path = self._path(kind, str(value), _DEPTH, frozenset())
                if path is None:
                    return None
                for step in path[0]:
                    if step not in reads:
                        reads.append(step)
                known += [fact for fact in path[1] if fact not in known]
                found.add(str(value))
        return Walk((*reads, *writes), tuple(writes), tuple(known))

    def _path(
        self, kind: str, value: str, depth: int, passed: frozenset[str]
    ) -> tuple[list[PlannedCall], list[PersonFact]] | None:
        """Returns the reads that end in an identifier, and what must be known for them; None if there is no way."""
        if not self._is_generated(kind):
            return [], [PersonFact(kind, value)]
        if depth == 0 or kind in passed:
            return None
        near = self._rows_with(value)
        for view in self._views:
            if kind not in view.gives or kind in view.takes.values():
                continue
            for reads, known, arguments in self._ways(view, near, depth, passed | {kind}):
                call = PlannedCall(view.name, arguments)
                if f'"{value}"' in self._read(call):
                    return [*reads, call], known
        return None

    def _ways(
        self, view: Action, near: Sequence[Row], depth: int, passed: frozenset[str]
    ) -> Iterable[tuple[list[PlannedCall], list[PersonFact], dict[str, Any]]]:
        """Yields arguments of a view that fit the rows, with the reads and facts that they need."""
        required = view.parameters.get("required", ())
        choices: list[tuple[list[PlannedCall], list[PersonFact], dict[str, Any]]] = [([], [], {})]
        for name in required:
            schema = view.parameters["properties"][name]
            grown = []
            for value, reads, known in self._fitting(view, name, schema, near, depth, passed):
                grown += [(r + reads, k + known, a | {name: value}) for r, k, a in choices]
            choices = grown[:12]
        yield from choices
        texts = [
            name
            for name, schema in view.parameters.get("properties", {}).items()
            if name not in required and schema.get("type") == "string" and name not in view.takes
        ]
        for name in texts[:2]:  # an optional text to search for
            for text in _phrases(near):
                for reads, known, arguments in choices[:3]:
                    yield reads, [*known, PersonFact("words", text)], arguments | {name: text}

    def _fitting(
        self,
        view: Action,
        name: str,
        schema: Mapping[str, Any],
        near: Sequence[Row],
        depth: int,
        passed: frozenset[str],
    ) -> Iterable[tuple[Any, list[PlannedCall], list[PersonFact]]]:
        if name in view.takes:
            kind = view.takes[name]
            for value in sorted(self._connected(kind, _identifiers_of(near)))[:4]:
                path = self._path(kind, value, depth - 1, passed)
                if path is not None:
                    yield value, *path
        elif "enum" in schema:
            for choice in schema["enum"][:8]:
                yield choice, [], []
        elif schema.get("type") == "integer":
            yield schema.get("minimum", 1), [], []
        elif schema.get("type") == "string":
            pattern = schema.get("pattern")
            if pattern is None:
                for text in _phrases(near):
                    yield text, [], [PersonFact("words", text)]
            else:
                for text in _matching(near, pattern):
                    yield text, [], [PersonFact("date", text)]

    def _read(self, call: PlannedCall) -> str:
        observation = self._world.peek(call.action, call.arguments)
        return "" if observation.error else observation.content

    def _is_generated(self, kind: str) -> bool:
        """Returns whether identifiers of a kind are generated, so that people do not know them by heart."""
        return any(c.prefix for table in self._world.composition.tables for c in table.columns if c.identifier == kind)


def row_of(world: ServiceWorld, kind: str, value: str) -> tuple[Table, msgspec.Struct] | None:
    """Returns the row whose key is an identifier; None where its kind is no key."""
    for table in world.composition.tables:
        if len(table.key) == 1 and table.columns[table.key_positions[0]].identifier == kind:
            query = f"SELECT * FROM {table.sql_name} WHERE {table.key[0]} = ?"
            found = world.database.connection.execute(query, (value,)).fetchone()
            if found is not None:
                return table, table.to_row(found)
    return None


def _judged(world: ServiceWorld) -> tuple[Any, ...]:
    return tuple(
        (c.table, c.key, c.after is None, *(c.after or {}).items()) for c in world.database.changes(judged_only=True)
    )


def _identifiers_of(rows: Iterable[Row]) -> list[str]:
    """Returns the identifiers in rows, each once, in order."""
    found: dict[str, None] = {}
    for table, row in rows:
        for column, cell in zip(table.columns, row, strict=True):
            if column.identifier and cell is not None:
                found[str(cell)] = None
    return list(found)


def _by_kind(rows: Iterable[Row]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table, row in rows:
        for column, cell in zip(table.columns, row, strict=True):
            if column.identifier and cell is not None:
                found.setdefault(column.identifier, set()).add(str(cell))
    return found


def _phrases(rows: Sequence[Row]) -> list[str]:
    """Returns texts of the rows by which they can be searched, the nearest and shortest first."""
    found: dict[str, None] = {}
    for table, row in rows[:12]:
        for column, cell in zip(table.columns, row, strict=True):
            is_plain = column.kind is str and not column.choices and not column.prefix and column.unit is None
            if is_plain and isinstance(cell, str) and 2 <= len(cell) <= 60:
                found[cell] = None
    return list(found)[:10]


def _matching(rows: Sequence[Row], pattern: str) -> list[str]:
    """Returns dates or times in the rows, or their dates, that match a pattern."""
    found: dict[str, None] = {}
    for _, row in rows[:12]:
        for cell in row:
            if isinstance(cell, str):
                for text in (cell, cell[:10]):
                    if re.fullmatch(pattern.strip("^$"), text):
                        found[text] = None
    return list(found)[:6]
