"""Draws plans: writes that the world accepts, and before them the reads through which their arguments can be known.

The graph "which view gives what which action takes" follows from the kinds of identifiers in signatures. A walk draws a
write whose arguments belong together (rows that refer to each other), tries it on a fork, and keeps it if the world
accepts it and something changes. Then each identifier is looked for backwards, from views that give its kind to what a
person can know by heart: names, addresses, dates and words, never generated identifiers. A view that is reached through
what the identifier's own row refers to is preferred to one that is reached through rows that refer to it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.declaration import Action
from assay.environments.services.files import FILE
from assay.environments.services.plans import PlannedCall, identifiers
from assay.environments.services.record_names import row_of
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
_REFERENCES: Final = 2
"""References that are followed from the row of an identifier before rows that refer to it are looked at."""
_TEXTS: Final = ("no longer needed", "as discussed on the phone", "it was entered twice", "a change of plans")

Row = tuple[Table, tuple[Any, ...]]


class LastWrite(NamedTuple):
    """Demands on the last write of a walk, other than that the world accepts it."""

    is_wanted: Callable[[ServiceWorld, PlannedCall], bool]
    """Decides in the world in which the writes before it were called, which must not change."""
    actions: frozenset[str] | None = None
    """Actions from which it is drawn; None for all."""


class PersonFact(NamedTuple):
    """Something that a person has to tell, because a read needs it."""

    kind: str
    value: str


ReadPath = tuple[list[PlannedCall], list[PersonFact]]
"""Reads that end in an identifier, and what a person must tell for them."""


class _Surroundings(NamedTuple):
    """Where the arguments of a read that gives an identifier are looked for."""

    rows: Sequence[Row]
    """Rows whose texts and dates can be searched for, the nearest first."""
    identifiers: Mapping[str, Sequence[str]]
    """Identifiers by kind, the nearest first."""


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
        self._paths: dict[tuple[str, str, int, frozenset[str]], ReadPath | None] = {}
        self._actions = [
            action
            for action in world.composition.actions.values()
            if action.wish and not action.reads_only and "agent" in action.roles
        ]
        self._views = sorted(
            (a for a in world.composition.actions.values() if a.reads_only and "agent" in a.roles and a.gives),
            key=lambda action: (len(action.parameters.get("required", ())), action.name),
        )

    def walk(
        self,
        writes: int,
        draw: random.Random,
        last: LastWrite | None = None,
        pauses: Sequence[Sequence[PlannedCall]] = (),
    ) -> Walk | None:
        """Returns a walk with so many writes; None if this try led to none.

        Args:
            writes: Number of writes.
            draw: Source of randomness.
            last: Demands on the last write; default: as for all others, the world accepts it and something changes.
            pauses: Calls before each write that are no part of the walk.
        """
        self._draw = draw
        changed = self._world.fork()
        chosen: list[PlannedCall] = []
        used: list[str] = []
        for number in range(writes):
            demands = last if number == writes - 1 else None
            for pause in pauses[number] if pauses else ():
                changed.act(pause.action, pause.arguments)
            call = self._write(changed, [c.action for c in chosen], used, demands)
            if call is None:
                changed.database.close()
                return None
            chosen.append(call)
        changed.database.close()
        return self.with_reads(chosen)

    def taking_files(self) -> LastWrite | None:
        """Returns the demand that a write takes a file; None if no write of this world does."""
        names = frozenset(action.name for action in self._actions if FILE in action.takes.values())

        def changes(world: ServiceWorld, call: PlannedCall) -> bool:
            fork = world.fork()
            try:
                return not fork.act(call.action, call.arguments).error and _judged(fork) != _judged(world)
            finally:
                fork.database.close()

        return LastWrite(changes, names) if names else None

    # Writes.

    def _write(
        self, changed: ServiceWorld, before: Sequence[str], used: list[str], demands: LastWrite | None
    ) -> PlannedCall | None:
        """Draws a write, calls it in `changed`, and adds its identifiers to `used`; None if none was accepted."""
        among = None if demands is None else demands.actions
        fresh = [a for a in self._actions if a.name not in before and (among is None or a.name in among)]
        if not fresh:
            return None
        action = self._draw.choice(fresh)
        for _ in range(TRIES):
            call = self._arguments(action, used, action.wish)
            if call is None:
                return None
            if demands is not None:
                if demands.is_wanted(changed, call):
                    return call
                continue
            digest = _judged(changed)
            if not changed.act(call.action, call.arguments).error and _judged(changed) != digest:
                used += [str(call.arguments[name]) for name in action.takes if name in call.arguments]
                return call
        return None

    def arguments(self, action: Action, wish: str, draw: random.Random) -> PlannedCall | None:
        """Returns a call with arguments that belong together, those that it requires or the wish names; None if one
        has no value."""
        self._draw = draw
        return self._arguments(action, (), wish)

    def draw_value(self, action: Action, name: str, draw: random.Random) -> Any:
        """Returns a value of one argument by its schema; None without one."""
        self._draw = draw
        return self._value(action, name, action.parameters["properties"][name], ())

    def draw_known(self, view: Action, draw: random.Random) -> dict[str, Any]:
        """Returns what a person might give to a view: values of one row of what it gives, of which they know names,
        addresses, dates and words, but no generated identifier. Arguments without such a value are absent."""
        tables = [
            table
            for table in self._world.composition.tables
            if any(column.identifier in view.gives for column in table.columns if column.prefix)
        ]
        row = self._draw_row(draw.choice(tables), draw) if tables else None
        found: dict[str, Any] = {}
        for name, schema in view.parameters.get("properties", {}).items():
            kind, rows = view.takes.get(name), [] if row is None else [row]
            options: list[Any] = []
            if kind is not None:
                if kind not in self._world.composition.prefixes:
                    options = [value for of_kind, value in _cells(rows) if of_kind == kind]
            elif schema.get("type") == "string" and "enum" not in schema:
                options = _matching(rows, schema["pattern"]) if "pattern" in schema else _phrases(rows)
            if options:
                found[name] = draw.choice(options)
        return found

    def _draw_row(self, table: Table, draw: random.Random) -> Row | None:
        rows = list(self._world.database.rows(table))
        return (table, draw.choice(rows)) if rows else None

    def _arguments(self, action: Action, used: Sequence[str], wish: str) -> PlannedCall | None:
        required = set(action.parameters.get("required", ()))
        spoken = set(re.findall(r"{(\w+)", wish))
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
            text = draw.choice(schema.get("examples", _TEXTS))
            return text if re.search(pattern, text) else None
        return None

    def _day(self, after: int) -> str:
        return shift_time(self._world.now[:10], days=after)

    def _connected(self, kind: str, values: Iterable[str]) -> set[str]:
        """Returns the identifiers of a kind in rows at most two references away from rows that hold the values."""
        found: set[str] = set()
        for value in values:
            found |= self._linked_to(value).get(kind, set())
        return found

    def _linked_to(self, value: str) -> dict[str, set[str]]:
        """Returns the identifiers, by kind, in rows at most two references away from rows that hold one."""
        linked = self._linked.get(value)
        if linked is None:
            near = self._rows_with(value)
            further = [row for other in _identifiers_of(near)[:_NEIGHBOURS] for row in self._rows_with(other)]
            linked = self._linked[value] = _by_kind([*near, *further])
        return linked

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

    def with_reads(self, writes: Sequence[PlannedCall]) -> Walk | None:
        """Puts the reads before some calls; None if an identifier of theirs cannot be found by reading."""
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

    def path_to(self, kind: str, value: str) -> ReadPath | None:
        """Returns the reads that end in an identifier, and what must be known for them; None without a way."""
        return self._path(kind, value, _DEPTH, frozenset())

    def _path(self, kind: str, value: str, depth: int, passed: frozenset[str]) -> ReadPath | None:
        """Returns the reads that end in an identifier, and what must be known for them; None without a way."""
        if kind not in self._world.composition.prefixes:
            return [], [PersonFact(kind, value)]
        if depth == 0 or kind in passed:
            return None
        key = (kind, value, depth, passed)
        if key not in self._paths:
            self._paths[key] = self._find_path(kind, value, depth, passed | {kind})
        return self._paths[key]

    def _find_path(self, kind: str, value: str, depth: int, passed: frozenset[str]) -> ReadPath | None:
        views = [view for view in self._views if kind in view.gives and kind not in view.takes.values()]
        for around in self._surroundings(kind, value):
            for view in views:
                for reads, known, arguments in self._ways(view, around, depth, passed):
                    call = PlannedCall(view.name, arguments)
                    if f'"{value}"' in self._read(call):
                        return [*reads, call], known
        return None

    def _surroundings(self, kind: str, value: str) -> Iterator[_Surroundings]:
        yield self._named_by(kind, value)
        yield self._near(value)

    def _named_by(self, kind: str, value: str) -> _Surroundings:
        """Returns the row that an identifier names, the rows that it refers to, and those that these refer to."""
        rows: list[Row] = []
        named: dict[tuple[str, str], None] = {(kind, value): None}
        for _ in range(_REFERENCES + 1):
            found = [row for key in named if (row := self._row_of(*key)) is not None and row not in rows]
            rows += found
            named |= dict.fromkeys(_cells(found))
        by_kind: dict[str, list[str]] = {}
        for of_kind, other in named:
            by_kind.setdefault(of_kind, []).append(other)
        return _Surroundings(rows, by_kind)

    def _row_of(self, kind: str, value: str) -> Row | None:
        """Returns the row whose key is an identifier; None where its kind is not a key."""
        found = row_of(self._world, kind, value)
        return None if found is None else (found[0], msgspec.structs.astuple(found[1]))

    def _near(self, value: str) -> _Surroundings:
        """Returns the rows that hold an identifier, and the identifiers at most two references away from them."""
        rows = self._rows_with(value)
        linked: dict[str, set[str]] = {}
        for other in _identifiers_of(rows):
            for kind, values in self._linked_to(other).items():
                linked.setdefault(kind, set()).update(values)
        return _Surroundings(rows, {kind: sorted(values) for kind, values in linked.items()})

    def _ways(
        self, view: Action, around: _Surroundings, depth: int, passed: frozenset[str]
    ) -> Iterable[tuple[list[PlannedCall], list[PersonFact], dict[str, Any]]]:
        """Yields arguments of a view that fit the surroundings, with the reads and facts that they need."""
        required = view.parameters.get("required", ())
        choices: list[tuple[list[PlannedCall], list[PersonFact], dict[str, Any]]] = [([], [], {})]
        for name in required:
            schema = view.parameters["properties"][name]
            grown = []
            for value, reads, known in self._fitting(view, name, schema, around, depth, passed):
                grown += [(r + reads, k + known, a | {name: value}) for r, k, a in choices]
            choices = grown[:12]
        yield from choices
        texts = [
            name
            for name, schema in view.parameters.get("properties", {}).items()
            if name not in required and schema.get("type") == "string" and name not in view.takes
        ]
        for name in texts[:2]:  # an optional text to search for
            for text in _phrases(around.rows):
                for reads, known, arguments in choices[:3]:
                    yield reads, [*known, PersonFact("words", text)], arguments | {name: text}

    def _fitting(
        self,
        view: Action,
        name: str,
        schema: Mapping[str, Any],
        around: _Surroundings,
        depth: int,
        passed: frozenset[str],
    ) -> Iterable[tuple[Any, list[PlannedCall], list[PersonFact]]]:
        if name in view.takes:
            kind = view.takes[name]
            for value in around.identifiers.get(kind, ())[:4]:
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
                for text in _phrases(around.rows):
                    yield text, [], [PersonFact("words", text)]
            else:
                for text in _matching(around.rows, pattern):
                    yield text, [], [PersonFact("date", text)]

    def _read(self, call: PlannedCall) -> str:
        observation = self._world.peek(call.action, call.arguments)
        return "" if observation.error else observation.content


def _judged(world: ServiceWorld) -> tuple[Any, ...]:
    return tuple(
        (c.table, c.key, c.after is None, *(c.after or {}).items()) for c in world.database.changes(judged_only=True)
    )


def _cells(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Yields the kind and value of each identifier in rows, in order."""
    for table, row in rows:
        for column, cell in zip(table.columns, row, strict=True):
            if column.identifier and cell is not None:
                yield column.identifier, str(cell)


def _identifiers_of(rows: Iterable[Row]) -> list[str]:
    """Returns the identifiers in rows, each once, in order."""
    return list(dict.fromkeys(value for _, value in _cells(rows)))


def _by_kind(rows: Iterable[Row]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for kind, value in _cells(rows):
        found.setdefault(kind, set()).add(value)
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
