"""Tables of a service: a Struct is a table, its fields are the columns.

A column is `str`, `int`, `bool` or a `Literal` of strings, and may be `None`. Floats are refused: their spelling
differs between machines, and states are compared by digest. Amounts of money are `Cents`, times are `Timestamp`.

An identifier is an annotated string. The table whose key has the identifier's kind is what other columns of the kind
refer to, and an argument of the kind takes what a result of the kind gives.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import starmap
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union

import msgspec
from msgspec import Meta

R = TypeVar("R", bound=msgspec.Struct)

IDENTIFIER: Final = "identifier"
PREFIX: Final = "prefix"
UNIT: Final = "unit"
DIGITS: Final = 6
"""Digits of a generated identifier, so that identifiers of one kind sort by age."""


def identifier(kind: str, prefix: str = "", description: str = "") -> Meta:
    """Returns the annotation of an identifier.

    Args:
        kind: What it identifies, in words: `order`, `email address`.
        prefix: What generated identifiers begin with, such as `ORD-`; empty if they are never generated.
        description: Description for tool schemas; default: the kind, with an example where there is a prefix.
    """
    example = f", such as {prefix}{'1' * DIGITS}" if prefix else ""
    text = description or f"Identifier of the {kind}{example}"
    return Meta(description=text, max_length=200, extra={IDENTIFIER: kind, PREFIX: prefix})


Cents = Annotated[int, Meta(description="Amount in cents", extra={UNIT: "cents"})]
Timestamp = Annotated[
    str,
    Meta(description="Time as YYYY-MM-DDTHH:MM", pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$", extra={UNIT: "time"}),
]
Date = Annotated[str, Meta(description="Date as YYYY-MM-DD", pattern=r"^\d{4}-\d{2}-\d{2}$", extra={UNIT: "date"})]


FreeText = Annotated[str, Meta(description="Text in your own words", max_length=20_000, extra={UNIT: "text"})]
"""A text whose wording is not judged."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: type[str] | type[int] | type[bool]
    optional: bool
    choices: tuple[str, ...] = ()
    """Permitted values; empty for any."""
    identifier: str | None = None
    prefix: str = ""
    unit: str | None = None


class Table(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A table of a service."""

    service: str
    name: str
    row: type[msgspec.Struct]
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    judged: bool = True
    """False for tables that record how the state came to be, such as messages; they are no part of what is wanted."""

    @cached_property
    def sql_name(self) -> str:
        return f"{self.service}_{self.name}"

    @cached_property
    def label(self) -> str:
        """Noun for one row, as in `order`."""
        return " ".join(_words(self.row.__name__))

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        names = [column.name for column in self.columns]
        return tuple(names.index(name) for name in self.key)

    @cached_property
    def by_key(self) -> str:
        """Condition of SQL by which a row is found, with a `?` for each part of its key."""
        return " AND ".join(f"{name} = ?" for name in self.key)

    @cached_property
    def selection(self) -> str:
        """Statement that reads the row with a key."""
        return f"SELECT * FROM {self.sql_name} WHERE {self.by_key}"

    @cached_property
    def insertion(self) -> str:
        """Statement that adds a row."""
        return f"INSERT INTO {self.sql_name} VALUES ({', '.join('?' * len(self.columns))})"

    @cached_property
    def _updates(self) -> dict[tuple[str, ...], str]:
        return {}

    def update_of(self, names: tuple[str, ...]) -> str:
        """Returns the statement that changes columns of the row with a key."""
        statement = self._updates.get(names)
        if statement is None:
            changed = ", ".join(f"{name} = ?" for name in names)
            statement = self._updates[names] = f"UPDATE {self.sql_name} SET {changed} WHERE {self.by_key}"
        return statement

    @cached_property
    def key_of(self) -> Callable[[msgspec.Struct], tuple[Any, ...]]:
        """Function that returns the key of a row."""
        read = attrgetter(*self.key)
        return read if len(self.key) > 1 else lambda row: (read(row),)

    @cached_property
    def flags(self) -> tuple[int, ...]:
        """Positions of booleans, which SQLite stores as 0 and 1."""
        return tuple(at for at, column in enumerate(self.columns) if column.kind is bool)

    def column(self, name: str) -> Column:
        """Returns a column. Raises `KeyError`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"Table {self.sql_name} has no column {name!r}")

    def to_rows(self, stored: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Returns the Structs of stored rows."""
        return [self.to_row(values) for values in stored] if self.flags else list(starmap(self.row, stored))

    def to_row(self, values: tuple[Any, ...]) -> Any:
        """Returns the Struct of a stored row."""
        if self.flags:
            changed = list(values)
            for at in self.flags:
                changed[at] = None if changed[at] is None else bool(changed[at])
            return self.row(*changed)
        return self.row(*values)

    def ddl(self, keys: dict[str, Table]) -> list[str]:
        """Returns the statements that create the table.

        Args:
            keys: The table that each kind of identifier is the key of.
        """
        lines = [_column_sql(column, self, keys) for column in self.columns]
        lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        lines += [f"UNIQUE ({', '.join(columns)})" for columns in self.unique]
        # Without a rowid the order of a scan is that of the key, whatever order the rows were written in.
        made = [f"CREATE TABLE {self.sql_name} ({', '.join(lines)}) STRICT, WITHOUT ROWID"]
        for columns in self.indexes:
            made.append(f"CREATE INDEX {self.sql_name}_{'_'.join(columns)} ON {self.sql_name} ({', '.join(columns)})")
        return made

    def triggers(self, number: int) -> list[str]:
        """Returns the statements that journal each change of a row under the table's number."""
        old, new = (", ".join(f"{side}.{column.name}" for column in self.columns) for side in ("OLD", "NEW"))
        old_key, new_key = (", ".join(f"{side}.{name}" for name in self.key) for side in ("OLD", "NEW"))
        same = " AND ".join(f"OLD.{name} = NEW.{name}" for name in self.key)
        write = "INSERT INTO journal (tab, key, old, new) VALUES"
        start = f"CREATE TRIGGER {self.sql_name}"
        return [
            f"{start}_i AFTER INSERT ON {self.sql_name} BEGIN "
            f"{write} ({number}, json_array({new_key}), NULL, json_array({new})); END",
            f"{start}_d AFTER DELETE ON {self.sql_name} BEGIN "
            f"{write} ({number}, json_array({old_key}), json_array({old}), NULL); END",
            f"{start}_u AFTER UPDATE ON {self.sql_name} BEGIN "
            f"SELECT CASE WHEN NOT ({same}) THEN RAISE(ABORT, 'the key of a row cannot be changed') END; "
            f"{write} ({number}, json_array({old_key}), json_array({old}), json_array({new})); END",
        ]


def read_table(
    row: type[msgspec.Struct],
    service: str,
    name: str,
    key: tuple[str, ...] = (),
    unique: tuple[tuple[str, ...], ...] = (),
    indexes: tuple[tuple[str, ...], ...] = (),
    *,
    judged: bool = True,
) -> Table:
    """Reads a table from a Struct; without `key` its first field is the key.

    Raises:
        TypeError: A field has a type that no column can have, or a named field does not exist.
    """
    hints = typing.get_type_hints(row, include_extras=True)
    columns = tuple(_read_column(row, field, hints[field]) for field in row.__struct_fields__)
    if not columns:
        raise TypeError(f"{row.__name__} has no fields: a table needs a key")
    key = key or (columns[0].name,)
    known = {column.name for column in columns}
    for used in (key, *unique, *indexes):
        if missing := [field for field in used if field not in known]:
            raise TypeError(f"{row.__name__} has no field {missing[0]!r}; it has {', '.join(sorted(known))}")
    if any(column.optional for column in columns if column.name in key):
        raise TypeError(f"{row.__name__}: the key cannot be None")
    return Table(service, name, row, key, columns, unique, indexes, judged)


def metadata(annotation: Any) -> dict[str, Any]:
    """Returns the `extra` facts of an annotation: identifier, prefix and unit; empty without any."""
    facts: dict[str, Any] = {}
    for part in alternatives(annotation):
        if typing.get_origin(part) is Annotated:
            facts |= metadata(part.__origin__)  # of `Annotated[Annotated[str, ...] | None, ...]`
            for meta in part.__metadata__:
                if isinstance(meta, Meta) and meta.extra:
                    facts |= meta.extra
    return facts


def can_be_column(annotation: Any) -> bool:
    """Returns whether a column can have this type."""
    try:
        _read_column(msgspec.Struct, "", annotation)
    except TypeError:
        return False
    return True


def alternatives(annotation: Any) -> list[Any]:
    """Returns the parts of an annotation that is a union, without None; of another one, itself."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return [part for part in typing.get_args(annotation) if part is not type(None)]
    return [annotation]


def _read_column(row: type[msgspec.Struct], name: str, annotation: Any) -> Column:
    parts = alternatives(annotation)
    where = f"{row.__name__}.{name}"
    if len(parts) != 1:
        raise TypeError(f"{where}: a column has one type, which may be optional, and not {annotation}")
    bare = typing.get_args(parts[0])[0] if typing.get_origin(parts[0]) is Annotated else parts[0]
    choices: tuple[str, ...] = ()
    if typing.get_origin(bare) is Literal:
        choices, bare = typing.get_args(bare), str
        if not all(isinstance(choice, str) for choice in choices):
            raise TypeError(f"{where}: the values of a Literal column are strings")
    if bare not in (str, int, bool):
        raise TypeError(f"{where}: {bare} cannot be a column; use str, int (cents, not float), bool or a Literal")
    facts = metadata(annotation)
    optional = len(typing.get_args(annotation)) > 1 and parts[0] is not annotation
    return Column(name, bare, optional, choices, facts.get(IDENTIFIER), facts.get(PREFIX, ""), facts.get(UNIT))


def _column_sql(column: Column, table: Table, keys: dict[str, Table]) -> str:
    text = f"{column.name} {'TEXT' if column.kind is str else 'INTEGER'}"
    if not column.optional:
        text += " NOT NULL"
    if column.choices:
        values = ", ".join("'" + choice.replace("'", "''") + "'" for choice in column.choices)
        text += f" CHECK ({column.name} IN ({values}))"
    elif column.kind is bool:
        text += f" CHECK ({column.name} IN (0, 1))"
    target = keys.get(column.identifier) if column.identifier is not None else None
    if target is not None and (target is not table or (column.name,) != table.key):
        text += f" REFERENCES {target.sql_name} DEFERRABLE INITIALLY DEFERRED"
    return text


def _words(name: str) -> list[str]:
    """Splits `OrderItem` into `order` and `item`."""
    words, word = [], ""
    for letter in name:
        if letter.isupper() and word:
            words.append(word)
            word = ""
        word += letter.lower()
    return [*words, word]


def format_cents(amount: int) -> str:
    """Returns an amount with two decimals: 39.90."""
    sign = "-" if amount < 0 else ""
    return f"{sign}{abs(amount) // 100}.{abs(amount) % 100:02}"
