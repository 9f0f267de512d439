"""Outcome of a world: its net changes in words, and the outcome that a plan leads to, as data for a check.

A wanted row that the plan added gets a placeholder in place of its generated identifier, also where other rows refer to
it, because another right plan may add rows in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from .net_changes import RowChange
from .schema import Column, Table, format_cents

NEW: Final = "$new"
"""Key of a placeholder: `{"$new": "return-1"}` stands for one identifier, the same wherever it occurs."""

Value = str | int | None | dict[str, str]
Kind = Literal["added", "changed", "removed"]


class ExpectedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of one row that an outcome requires or permits."""

    table: str
    kind: Kind
    key: tuple[Value, ...]
    """Values of the key's columns; placeholders for generated identifiers."""
    values: dict[str, Value] = {}
    """Values after the change: every column of an added row, the changed columns of a changed one. Columns that are
    absent here and not in `free` keep their values."""
    free: tuple[str, ...] = ()
    """Columns that may have any value."""
    optional: bool = False
    """The change is permitted and not required."""


def expected_changes(
    tables: Sequence[Table], changes: Iterable[RowChange], free: Iterable[str] = ()
) -> tuple[ExpectedChange, ...]:
    """Returns the outcome that exactly these changes are.

    Args:
        tables: The tables of the world.
        changes: Net changes of the judged tables.
        free: Columns that may have any value, as `table.column`, beside those whose unit is `text`.
    """
    by_name = {table.sql_name: table for table in tables}
    listed, freed = list(changes), set(free)
    placeholders = _placeholders(by_name, listed)
    return tuple(_expected_change(by_name[change.table], change, placeholders, freed) for change in listed)


def _placeholders(by_name: Mapping[str, Table], changes: Iterable[RowChange]) -> dict[tuple[str, str], dict[str, str]]:
    """Returns the placeholder of each generated identifier, by its kind and value."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    numbers: dict[str, int] = {}
    for change in changes:
        table = by_name[change.table]
        column = table.columns[table.key_positions[0]]
        if change.before is None and len(table.key) == 1 and column.prefix and column.identifier:
            numbers[table.label] = numbers.get(table.label, 0) + 1
            name = f"{table.label} {numbers[table.label]}"
            found[column.identifier, str(change.key[0])] = {NEW: name}
    return found


def _expected_change(
    table: Table, change: RowChange, placeholders: Mapping[tuple[str, str], dict[str, str]], freed: set[str]
) -> ExpectedChange:
    def value_of(column: Column, value: str | int | None) -> Value:
        return placeholders.get((column.identifier or "", str(value)), value)

    key = tuple(value_of(table.column(name), value) for name, value in zip(table.key, change.key, strict=True))
    if change.after is None:
        return ExpectedChange(table.sql_name, "removed", key)
    before = change.before
    columns = [column for column in table.columns if before is None or before[column.name] != change.after[column.name]]
    free = tuple(c.name for c in columns if c.unit == "text" or f"{table.sql_name}.{c.name}" in freed)
    values = {c.name: value_of(c, change.after[c.name]) for c in columns if c.name not in free}
    return ExpectedChange(table.sql_name, "added" if before is None else "changed", key, values, free)


def fold_case(changes: Iterable[RowChange], columns: Collection[str]) -> list[RowChange]:
    """Returns the changes with texts of some columns in lower case; rows that then did not change are left out.

    Args:
        changes: Net changes.
        columns: Columns in which upper and lower case are equal, as `table.column`; none of a key.
    """
    folded = []
    for change in changes:
        before = _lower(change.table, change.before, columns)
        after = _lower(change.table, change.after, columns)
        if before != after:
            folded.append(RowChange(change.table, change.key, before, after))
    return folded


def fold_expected_case(change: ExpectedChange, columns: Collection[str]) -> ExpectedChange:
    """Returns a wanted change with texts of some columns, as `table.column`, in lower case."""
    return msgspec.structs.replace(change, values=_lower(change.table, change.values, columns) or {})


def _lower(table: str, values: Mapping[str, Any] | None, columns: Collection[str]) -> dict[str, Any] | None:
    if values is None:
        return None
    lowered: dict[str, Any] = {
        name: value.lower() if isinstance(value, str) and f"{table}.{name}" in columns else value
        for name, value in values.items()
    }
    return lowered


def describe_changes(tables: Sequence[Table], changes: Iterable[RowChange]) -> list[str]:
    """Returns each change in words: `order ORD-204101: status shipped -> cancelled`, `refund REF-1 added: ...`."""
    by_name = {table.sql_name: table for table in tables}
    return [_describe(by_name[change.table], change) for change in changes]


def _describe(table: Table, change: RowChange) -> str:
    name = f"{table.label} {' '.join(map(str, change.key))}"
    if change.after is None:
        return f"{name} removed"
    others = [column for column in table.columns if column.name not in table.key]
    if change.before is None:
        filled = [column for column in others if change.after[column.name] is not None]
        shown = ", ".join(f"{_words(c.name)} {_format_value(c, change.after[c.name])}" for c in filled)
        return f"{name} added" + (f": {shown}" if shown else "")
    before, after = change.before, change.after
    changed = [column for column in others if before[column.name] != after[column.name]]
    return f"{name}: " + ", ".join(
        f"{_words(c.name)} {_format_value(c, before[c.name])} -> {_format_value(c, after[c.name])}" for c in changed
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _format_value(column: Column, value: str | int | None) -> str:
    if value is None:
        return "none"
    if column.kind is bool:
        return "yes" if value else "no"
    if column.unit == "cents" and isinstance(value, int):
        return format_cents(value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_json(wanted: Iterable[ExpectedChange]) -> list[dict[str, Any]]:
    """Returns wanted changes as JSON data, as a check's parameters hold them."""
    return [msgspec.to_builtins(change) for change in wanted]
