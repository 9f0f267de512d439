"""Access to the state for one action: `Transaction` reads and writes rows, `Generator` fills fresh tables.

An action gets nothing else: no clock but the world's, no random numbers, no connection.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NoReturn, Protocol, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from assay.errors import AssayError

from .database import fold_text
from .schema import DIGITS, Table

R = TypeVar("R", bound=msgspec.Struct)

Code = Literal["not_found", "invalid", "forbidden", "conflict", "unavailable"]
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M"
_FIRST_GENERATED: Final = 100_000
_LAST_GENERATED: Final = 899_999
"""Identifiers of generated rows are drawn from here; later ones follow the largest."""


class ActionError(AssayError):
    """A refused action. The state is unchanged, and the caller reads the message.

    Attributes:
        code: Kind of refusal.
    """

    def __init__(self, message: str, code: Code = "invalid") -> None:
        super().__init__(message)
        self.code: Code = code


class WorldAccess(Protocol):
    """Interface of the world to a transaction."""

    @property
    def now(self) -> str:
        """Returns the time of the world's clock."""
        ...

    @property
    def tables(self) -> Mapping[type[msgspec.Struct], Table]:
        """Returns the tables by row class."""
        ...

    def schedule(self, at: str, service: str, name: str, payload: dict[str, Any]) -> None:
        """Adds an event."""
        ...

    def publish(self, topic: str, payload: dict[str, Any]) -> None:
        """Runs the handlers of a topic."""
        ...

    def advance(self, until: str) -> None:
        """Sets the clock, and runs the events that are due before."""
        ...

    def call_as_user(self, name: str, arguments: dict[str, Any]) -> Any:
        """Runs an action of the role `user`. Raises `ActionError`."""
        ...


class Transaction:
    """The state as one action sees it.

    Attributes:
        role: Role of the caller: `agent`, `user` or `system`.
        actor: Identifier of the person for whom the caller is signed in; empty for the service's default.
    """

    __slots__ = ("_access", "_execute", "_service", "_tables", "actor", "role")

    def __init__(
        self, access: WorldAccess, connection: sqlite3.Connection, service: str, role: str, actor: str
    ) -> None:
        self._access = access
        self._tables = access.tables
        self._execute = connection.execute
        self._service = service
        self.role = role
        self.actor = actor

    # Reading.

    def get(self, row: type[R], *key: str | int) -> R:
        """Returns the row with a key. Raises `ActionError` without one."""
        table = self._tables[row]
        values = self._execute(table.selection, key).fetchone()
        if values is None:
            raise ActionError(f"There is no {table.label} {' '.join(map(str, key))!r}.", "not_found")
        found: R = table.to_row(values)
        return found

    def get_or_none(self, row: type[R], *key: str | int) -> R | None:
        """Returns the row with a key, or None."""
        table = self._tables[row]
        values = self._execute(table.selection, key).fetchone()
        if values is None:
            return None
        found: R = table.to_row(values)
        return found

    def find(
        self, row: type[R], *, order_by: str = "", limit: int | None = None, offset: int = 0, **equal: Any
    ) -> list[R]:
        """Returns the rows whose fields have these values; None stands for an absent value.

        Args:
            row: Class of the rows.
            order_by: Field, or `-field` for the largest first; the key breaks ties. Default: by key.
            limit: Maximum number of rows.
            offset: Number of rows left out at the beginning.
            **equal: Values by field.
        """
        where = " AND ".join(f"{name} IS ?" for name in equal)
        return self.select(row, where, *equal.values(), order_by=order_by, limit=limit, offset=offset)

    def select(
        self, row: type[R], where: str, *values: Any, order_by: str = "", limit: int | None = None, offset: int = 0
    ) -> list[R]:
        """Returns the rows for which an SQL condition holds; values go in by `?`, never as text."""
        table = self._tables[row]
        query = f"SELECT * FROM {table.sql_name}"
        if where:
            query += f" WHERE {where}"
        if order_by:
            name = order_by.removeprefix("-")
            query += f" ORDER BY {name}{' DESC' if order_by.startswith('-') else ''}, {', '.join(table.key)}"
        if limit is not None or offset:
            query += f" LIMIT {-1 if limit is None else int(limit)} OFFSET {int(offset)}"
        return table.to_rows(self._execute(query, values))

    def count(self, row: type[msgspec.Struct], where: str = "", *values: Any) -> int:
        """Returns how many rows fulfil an SQL condition."""
        table = self._tables[row]
        query = f"SELECT count(*) FROM {table.sql_name}" + (f" WHERE {where}" if where else "")
        number: int = self._execute(query, values).fetchone()[0]
        return number

    def search(
        self,
        row: type[R],
        text: str,
        *fields: str,
        order_by: str = "",
        limit: int = 20,
        offset: int = 0,
        **equal: Any,
    ) -> list[R]:
        """Returns the rows in which each word of a text occurs in one of the fields, whatever the case.

        Args:
            row: Class of the rows.
            text: Words; without any, every row matches.
            *fields: Fields that are searched.
            order_by: As for `find`.
            limit: Maximum number of rows.
            offset: Number of rows left out at the beginning.
            **equal: Values by field that a row must have besides.
        """
        words = fold_text(text).split()[:10]
        any_field = " OR ".join(f"instr(fold({name}), ?)" for name in fields)
        where = " AND ".join([*(f"({any_field})" for _ in words), *(f"{name} IS ?" for name in equal)])
        values = [word for word in words for _ in fields]
        return self.select(row, where, *values, *equal.values(), order_by=order_by, limit=limit, offset=offset)

    # Writing.

    def insert(self, row: R) -> R:
        """Adds a row and returns it. Raises `ActionError` if a row with its key exists."""
        table = self._tables[type(row)]
        self._write(table, table.insertion, astuple(row))
        return row

    def update(self, row: R, **changes: Any) -> R:
        """Changes fields of a row and returns the row as it is now."""
        table = self._tables[type(row)]
        self._write(table, table.update_of(tuple(changes)), (*changes.values(), *table.key_of(row)))
        return replace(row, **changes)

    def delete(self, row: msgspec.Struct) -> None:
        """Removes a row."""
        table = self._tables[type(row)]
        self._write(table, f"DELETE FROM {table.sql_name} WHERE {table.by_key}", table.key_of(row))

    def delete_all(self, row: type[msgspec.Struct], where: str, *values: Any) -> None:
        """Removes the rows for which an SQL condition holds, as in `select`."""
        table = self._tables[row]
        self._write(table, f"DELETE FROM {table.sql_name} WHERE {where}", values)

    def _write(self, table: Table, statement: str, values: Sequence[Any]) -> None:
        try:
            self._execute(statement, values)
        except sqlite3.IntegrityError as exc:
            raise ActionError(f"The {table.label} cannot be stored: {exc}.", "conflict") from exc

    def new_id(self, row: type[msgspec.Struct]) -> str:
        """Returns the identifier of the next row: the prefix of its key and the largest number plus one.

        It depends on the rows alone, so that equal states go on equally.
        """
        table = self._tables[row]
        (at,) = table.key_positions
        column = table.columns[at]
        largest = self._execute(f"SELECT max({column.name}) FROM {table.sql_name}").fetchone()[0]
        number = int(largest.removeprefix(column.prefix)) + 1 if largest else _FIRST_GENERATED
        return f"{column.prefix}{number:0{DIGITS}}"

    # Time, events, and refusal.

    @property
    def now(self) -> str:
        """Time of the world's clock, as `YYYY-MM-DDTHH:MM`."""
        return self._access.now

    @property
    def today(self) -> str:
        """Date of the world's clock, as `YYYY-MM-DD`."""
        return self._access.now[:10]

    def later(self, *, days: int = 0, hours: int = 0, minutes: int = 0, start: str | None = None) -> str:
        """Returns the time so much after now, or after `start`; negative numbers give earlier ones."""
        return shift_time(self.now if start is None else start, days=days, hours=hours, minutes=minutes)

    def schedule(self, at: str, event: Callable[..., Any], **payload: Any) -> None:
        """Schedules an event of this service."""
        self._access.schedule(at, self._service, event.__name__, payload)

    def advance(self, until: str) -> None:
        """Sets the clock to a later time; events that are due until then happen in order."""
        self._access.advance(until)

    def publish(self, topic: str, **payload: Any) -> None:
        """Gives a message to the services of the world that subscribed to its topic; without any, nothing happens."""
        self._access.publish(topic, payload)

    def call_as_user(self, action: str, arguments: dict[str, Any]) -> Any:
        """Runs an action of the role `user` and returns its result. Raises `ActionError`; then it changed nothing."""
        return self._access.call_as_user(action, arguments)

    def require(self, condition: object, message: str, code: Code = "invalid") -> None:
        """Refuses the action unless a condition holds."""
        if not condition:
            raise ActionError(message, code)

    def refuse(self, message: str, code: Code = "invalid") -> NoReturn:
        """Refuses the action."""
        raise ActionError(message, code)


class Generator(Transaction):
    """The tables while they are filled.

    Attributes:
        draw: The only source of randomness, seeded by the world's seed and the service's name.
    """

    __slots__ = ("_numbers", "draw")

    def __init__(self, access: WorldAccess, connection: sqlite3.Connection, service: str, draw: random.Random) -> None:
        super().__init__(access, connection, service, "system", "")
        self.draw = draw
        self._numbers: dict[type[msgspec.Struct], set[int]] = {}

    def new_id(self, row: type[msgspec.Struct]) -> str:
        """Returns a random identifier, so that one is not to be guessed from another."""
        table = self._tables[row]
        (at,) = table.key_positions
        used = self._numbers.setdefault(row, set())
        while (number := self.draw.randint(_FIRST_GENERATED, _LAST_GENERATED)) in used:
            pass
        used.add(number)
        return f"{table.columns[at].prefix}{number:0{DIGITS}}"

    def insert_all(self, rows: Sequence[msgspec.Struct]) -> None:
        """Adds many rows of one class."""
        if not rows:
            return
        table = self._tables[type(rows[0])]
        for row in rows:
            self._execute(table.insertion, astuple(row))


def shift_time(start: str, *, days: int = 0, hours: int = 0, minutes: int = 0) -> str:
    """Returns a time or date so much later, in the form of `start`. Raises `ValueError` for other texts."""
    form = TIME_FORMAT if len(start) > 10 else TIME_FORMAT[:8]
    return (datetime.fromisoformat(start) + timedelta(days=days, hours=hours, minutes=minutes)).strftime(form)


def is_time(text: str) -> bool:
    """Returns whether a text that looks like a time or date is one; `2026-02-30` is not."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def without_none(**filters: Any) -> dict[str, Any]:
    """Returns the filters that are not None, for `find` and `search`."""
    return {name: value for name, value in filters.items() if value is not None}
