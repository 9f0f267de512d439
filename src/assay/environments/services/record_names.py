"""Words by which a message names a record: what the rule of consent compares with what the agent said.

A record is named by its identifier, by a number that people know by heart (or its last four digits), or by what tells
its description from those of the other records of the call and of its rivals, the records of its kind that belong to
the same owner: of two payees `Joana Stein` and `Joana Quinn` of one person, `Joana` names neither. What every record of
the kind has in its description (`the account`) names none of them. A record may be described as it was at first or as
it is now, since an earlier call may have changed it. Parentheses of a description only add to it, and count where they
alone tell two records apart.

Not covered: names in other words, a message that names many records, and rivals that are described by more words: `the
current account` names the open one beside `the closed current account`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
_MOST_RIVALS: Final = 200
_MOST_COMPARED: Final = 20
_PARENTHESES: Final = re.compile(r"\([^()]*\)")
_WORD: Final = re.compile(r"[^\W_][\w.,:@'-]*")
_GLUE: Final = frozenset(
    ("the", "and", "from", "for", "with", "that", "which", "are", "was", "were", "its", "has", "have", "had")
)
"""Words of `_LEAST_WORD` letters and more that tell no record from another."""


def _table_of(world: ServiceWorld, kind: str) -> Table | None:
    """Returns the table whose key is of a kind of identifier."""
    for table in world.composition.tables:
        if len(table.key) == 1 and table.columns[table.key_positions[0]].identifier == kind:
            return table
    return None


def row_of(
    world: ServiceWorld, kind: str, value: str, database: Database | None = None
) -> tuple[Table, msgspec.Struct] | None:
    """Returns the row whose key is an identifier; None where its kind is not a key. `database` holds another state of
    the world."""
    table = _table_of(world, kind)
    if table is None:
        return None
    query = f"SELECT * FROM {table.sql_name} WHERE {table.key[0]} = ?"
    found = (database or world.database).connection.execute(query, (value,)).fetchone()
    return None if found is None else (table, table.to_row(found))


class _Words(NamedTuple):
    """Words of a record's description."""

    plain: frozenset[str]
    full: frozenset[str]
    """With those in parentheses and short ones, such as the day of a date."""


class _Description(NamedTuple):
    """How a record is described in one state of the world."""

    own: _Words
    others: frozenset[str]
    """Words of the other records of the call, and of every record of the kind."""
    rivals: Mapping[str, _Words]
    """By their identifiers."""


def names_of_records(world: ServiceWorld, action: Action, arguments: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Returns how the record that each argument identifies is named: groups of names, of each of which a message holds
    one. The first group of an argument has its name, further ones a number behind it."""
    given = {name: arguments[name] for name in action.takes if isinstance(arguments.get(name), str)}
    initial = Database(world.database.image)
    try:
        common = {kind: _common(world, kind, initial) for kind in {action.takes[name] for name in given}}
        states = [_describe(world, action, given, common, database) for database in (initial, world.database)]
    finally:
        initial.close()
    found: dict[str, tuple[str, ...]] = {}
    for name, value in given.items():
        described = [state[name] for state in states if name in state]
        groups = dict.fromkeys(_groups(world, action.takes[name], value, described))
        found |= {name if at == 1 else f"{name} {at}": group for at, group in enumerate(groups, 1)}
    return found


def _groups(world: ServiceWorld, kind: str, value: str, described: Sequence[_Description]) -> Iterator[tuple[str, ...]]:
    numbers = list(_known_numbers(world, kind, value))
    rivals = sorted({rival for one in described for rival in one.rivals})
    told = False
    for rival in rivals:
        pairs = [(one, one.rivals[rival]) for one in described if rival in one.rivals]
        if any(one.own.plain < other.plain for one, other in pairs):
            continue  # it takes more words to name the rival
        told = True
        theirs = set(_known_numbers(world, kind, rival))
        words = [word for one, other in pairs for word in sorted(_telling(one, other))]
        yield tuple(dict.fromkeys([value, *(one for one in numbers if one not in theirs), *words]))
    if not told:
        words = [word for one in described for word in sorted(one.own.plain - one.others or one.own.plain)]
        yield tuple(dict.fromkeys([value, *numbers, *words]))


def _telling(one: _Description, rival: _Words) -> frozenset[str]:
    """Returns the words that tell a record from a rival, without those of other records where any are left."""
    plain = one.own.plain - rival.plain
    return plain - one.others or plain or one.own.full - rival.full


def _describe(
    world: ServiceWorld,
    action: Action,
    given: Mapping[str, str],
    common: Mapping[str, frozenset[str]],
    database: Database,
) -> dict[str, _Description]:
    """Returns the description of each argument's record in a state of the world, by argument; `common` holds the words
    of every record, by kind."""
    words = {name: _words_of(world, action.takes[name], value, database) for name, value in given.items()}
    found = {}
    for name, value in given.items():
        kind, own = action.takes[name], words[name]
        if own is None:
            continue
        others = frozenset[str]().union(
            *(one.plain for other, one in words.items() if one is not None and given[other] != value)
        )
        rivals = {}
        for key in _rivals(world, kind, value, database):
            if (rival := _words_of(world, kind, key, database)) is not None:
                rivals[key] = rival
        found[name] = _Description(own, others | common[kind], rivals)
    return found


def _common(world: ServiceWorld, kind: str, database: Database) -> frozenset[str]:
    """Returns the words that every record of a kind has in its description, judged by the first ones."""
    table = _table_of(world, kind)
    if table is None:
        return frozenset()
    query = f"SELECT {table.key[0]} FROM {table.sql_name} ORDER BY 1 LIMIT {_MOST_COMPARED}"
    keys = [key for (key,) in database.connection.execute(query)]
    found = [one.plain for key in keys if (one := _words_of(world, kind, key, database)) is not None]
    return frozenset.intersection(*found) if len(found) > 1 else frozenset()


def _rivals(world: ServiceWorld, kind: str, value: str, database: Database) -> list[str]:
    """Returns the identifiers of the records of a kind that belong with a record to a third: through a column of its
    own, a column of the record that one refers to, or a table that links two kinds."""
    table = _table_of(world, kind)
    if table is None:
        return []
    own, key = table.sql_name, table.key[0]
    conditions = []
    for column in table.columns:
        target = _table_of(world, column.identifier or "")
        if column.name == key or target is None:
            continue
        this = f"(SELECT {column.name} FROM {own} WHERE {key} = :it)"
        conditions.append(f"{column.name} = {this}")
        conditions += [
            f"{column.name} IN (SELECT {target.key[0]} FROM {target.sql_name} WHERE {far.name} = "
            f"(SELECT {far.name} FROM {target.sql_name} WHERE {target.key[0]} = {this}))"
            for far in target.columns
            if far.name != target.key[0] and _table_of(world, far.identifier or "") is not None
        ]
    for link in world.composition.tables:
        keys = [link.columns[at] for at in link.key_positions]
        conditions += [
            f"{key} IN (SELECT {one.name} FROM {link.sql_name} WHERE {other.name} IN "
            f"(SELECT {other.name} FROM {link.sql_name} WHERE {one.name} = :it))"
            for one in keys
            for other in keys
            if one.identifier == kind and other is not one and _table_of(world, other.identifier or "") is not None
        ]
    if not conditions:
        return []
    query = (
        f"SELECT {key} FROM {own} WHERE {key} <> :it AND ({' OR '.join(conditions)}) ORDER BY 1 LIMIT {_MOST_RIVALS}"
    )
    return [found for (found,) in database.connection.execute(query, {"it": value})]


def _words_of(world: ServiceWorld, kind: str, value: str, database: Database) -> _Words | None:
    """Returns the words of a record's description that do not say of which kind it is; None without a record."""
    found = row_of(world, kind, value, database)
    if found is None:
        return None
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
    noun = frozenset((*table.label.split(), *service.nouns.get(table.row, "").lower().split()))
    plain = _PARENTHESES.sub(" ", text)
    full = _words_in(text, noun)
    long = full if not plain.strip() else _words_in(plain, noun)
    return _Words(frozenset(word for word in long if len(word) >= _LEAST_WORD), full)


def _words_in(text: str, noun: frozenset[str]) -> frozenset[str]:
    bare = (word.rstrip(".,:'-") for word in _WORD.findall(text))
    return frozenset(word for word in bare if word.lower() not in _GLUE | noun)


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
