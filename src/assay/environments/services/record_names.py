"""Words by which a message names a record: what the rule of consent compares with what the agent said.

A record is named by its identifier, by a number that people know by heart (or its last four digits), or by what tells
its description from those of the other records of the call: `the current account of Anna Weber` and `the savings
account of Anna Weber` are named by `current` and `savings`. It may be described as it was at first or as it is now,
since an earlier call may have changed it. Parentheses of a description only add to it.

Not covered: names in other words, and two records whose descriptions differ in parentheses alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .database import Database
from .declaration import Action, boundary_of
from .schema import Table
from .transaction import ActionError, Transaction

if TYPE_CHECKING:
    from .world import ServiceWorld

_LEAST_NUMBER: Final = 6
"""Characters of a number of which the last four name it."""
_LEAST_WORD: Final = 3
_PARENTHESES: Final = re.compile(r"\([^()]*\)")
_WORD: Final = re.compile(r"[^\W_][\w.,:@'-]*")
_GLUE: Final = frozenset(
    ("the", "and", "from", "for", "with", "that", "which", "are", "was", "were", "its", "has", "have", "had")
)
"""Words of `_LEAST_WORD` letters and more that tell no record from another."""


def row_of(
    world: ServiceWorld, kind: str, value: str, database: Database | None = None
) -> tuple[Table, msgspec.Struct] | None:
    """Returns the row whose key is an identifier; None where its kind is not a key. `database` holds another state of
    the world."""
    connection = (database or world.database).connection
    for table in world.composition.tables:
        if len(table.key) == 1 and table.columns[table.key_positions[0]].identifier == kind:
            query = f"SELECT * FROM {table.sql_name} WHERE {table.key[0]} = ?"
            found = connection.execute(query, (value,)).fetchone()
            if found is not None:
                return table, table.to_row(found)
    return None


def names_of_records(world: ServiceWorld, action: Action, arguments: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Returns the names of the record that each argument identifies, by argument; any of them names it."""
    given = {name: arguments[name] for name in action.takes if isinstance(arguments.get(name), str)}
    found = {name: [value, *_known_numbers(world, action.takes[name], value)] for name, value in given.items()}
    initial = Database(world.database.image)
    try:
        for database in (initial, world.database):
            words = {name: frozenset(_described(world, action.takes[name], given[name], database)) for name in given}
            for name, value in given.items():
                others = frozenset[str]().union(*(words[other] for other in given if given[other] != value))
                found[name] += sorted(words[name] - others or words[name])
    finally:
        initial.close()
    return {name: tuple(dict.fromkeys(names)) for name, names in found.items()}


def _described(world: ServiceWorld, kind: str, value: str, database: Database) -> Iterator[str]:
    """Yields the words of a record's description that do not say of which kind it is."""
    found = row_of(world, kind, value, database)
    if found is None:
        return
    table, row = found
    service = next(one for one in world.composition.services if one.name == table.service)
    describe = service.descriptions.get(table.row)
    text = " ".join(_texts(table, row))
    if describe is not None:
        transaction = Transaction(world, database.connection, service.name, "system", "")
        try:
            with boundary_of(service.name), database.reading():
                text = describe(transaction, row)
        except ActionError:
            text = ""  # it belongs to a record that is no longer there
    noun = {*table.label.split(), *service.nouns.get(table.row, "").lower().split()}
    plain = _PARENTHESES.sub(" ", text)
    for word in _WORD.findall(plain if plain.strip() else text):
        bare = word.rstrip(".,:'-")
        if len(bare) >= _LEAST_WORD and bare.lower() not in _GLUE | noun:
            yield bare


def _texts(table: Table, row: msgspec.Struct) -> Iterator[str]:
    """Yields the texts of a row that people write."""
    for column in table.columns:
        value = getattr(row, column.name)
        if isinstance(value, str) and not (column.choices or column.identifier or column.unit):
            yield value


def _known_numbers(world: ServiceWorld, kind: str, value: str) -> Iterator[str]:
    """Yields a record's identifiers that people know by heart, and the last four characters of long ones."""
    found = row_of(world, kind, value)
    if found is None:
        return
    table, row = found
    for column in table.columns:
        known = getattr(row, column.name)
        is_own = column.identifier is not None and row_of(world, column.identifier, str(known)) is None
        if is_own and isinstance(known, str) and known:
            yield known
            if len(known) >= _LEAST_NUMBER and known[-4:].isdigit():
                yield known[-4:]
