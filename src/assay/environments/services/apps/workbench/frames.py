"""Databases of WorkBench: CSV files, and tables whose rows are labelled as pandas labels them.

WorkBench compares two states by `DataFrame.equals`, which compares rows, their order and their labels. Rows here have
the key `position`, which grows in the order in which rows are added. Labels equal that key until a row is added after
another one was removed; from then on a text lists them. So two states are equal here if they are equal there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from assay.environments.services.clock import ClockTime
from assay.environments.services.data_files import DataFile, read_data_file
from assay.environments.services.declaration import Service
from assay.environments.services.transaction import Generator, Transaction

R = TypeVar("R", bound=msgspec.Struct)

Record = dict[str, str | None]
"""A row as agents read it, by the column names of the file."""

START: Final = "2023-11-30T00:00"
"""Time at which every task of WorkBench begins."""
SHOWN: Final = 5
"""Rows that a search shows at most."""
POSITION: Final = "position"
_FOLDERS: Final = ("", "data/processed", "data/raw")
"""Where the files are, from the folder that the user names: the folder itself, or parts of a checkout."""


class WorkBenchKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a domain over a database in a file."""

    data: str = ""
    """Folder of the CSV files, or a checkout of WorkBench."""
    hash: str = ""
    """SHA-256 that the file must have, without a line feed at its end; empty for any."""


def find_file(data: str, name: str, folders: Sequence[str] = _FOLDERS) -> DataFile:
    """Reads a file.

    Args:
        data: Folder that the user named.
        name: Name of the file; it may be compressed, with `.gz`.
        folders: Folders below `data` in which the file may be.

    Raises:
        ValueError: None exists.
    """
    if not data:
        raise ValueError(f"WorkBench needs the knob `data`: the folder of {name}, or a checkout")
    return read_data_file([Path(data, folder) for folder in folders], [name])


def parse_csv(file: DataFile, columns: Sequence[str], *, has_header: bool = True) -> list[tuple[str | None, ...]]:
    """Returns the cells of some columns by row; None for empty cells, as pandas reads them.

    Args:
        file: The file.
        columns: Columns that the first line must name, in any order.
        has_header: False if the first line is a row.

    Raises:
        ValueError: It is not a CSV file, or has other columns.
    """
    try:
        lines = list(csv.reader(io.StringIO(file.data.decode(), newline=""), strict=True))
    except (UnicodeError, csv.Error) as exc:
        raise ValueError(f"{file.path} is not a CSV file: {exc}") from exc
    header = list(columns)
    if has_header:
        header = lines.pop(0) if lines else []
    if missing := [column for column in columns if column not in header]:
        raise ValueError(f"{file.path} has no column {missing[0]!r}")
    for number, cells in enumerate(lines, start=1):
        if len(cells) != len(header):
            raise ValueError(f"{file.path}: row {number} has {len(cells)} cells, and there are {len(header)} columns")
        if any("\0" in cell for cell in cells):
            raise ValueError(f"{file.path}: row {number} holds the character U+0000")
    positions = [header.index(column) for column in columns]
    return [tuple(cells[at] or None for at in positions) for cells in lines]


def read_database(
    knobs: WorkBenchKnobs, name: str, columns: Sequence[str], *, has_header: bool = True
) -> list[tuple[str | None, ...]]:
    """Returns the cells of a domain's file by row. Raises `ValueError` if it is not the file that the knobs name."""
    file = find_file(knobs.data, name)
    if knobs.hash not in ("", file.sha256):
        raise ValueError(f"{file.path} has the SHA-256 {file.sha256}, and {knobs.hash} is wanted")
    return parse_csv(file, columns, has_header=has_header)


def start_clock(make: Generator) -> None:
    """Sets the world's clock to the time at which the tasks begin."""
    make.update(make.get(ClockTime, 1), now=START)


def require_text(tx: Transaction, value: str | None, message: str) -> str:
    """Returns an argument. Raises `ActionError` with a message if it is absent or empty."""
    if not value:
        tx.refuse(message)
    return value


def parse_time(tx: Transaction, text: str) -> datetime:
    """Returns the time that an argument names. Raises `ActionError`."""
    found = read_time(text)
    if found is None:
        tx.refuse(f"Unknown datetime string format, unable to parse: {text[:80]}")
    return found


def read_time(text: str | None) -> datetime | None:
    """Returns a time without a zone; None for other texts."""
    try:
        found = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    return None if found.tzinfo else found


def contains(value: str | None, text: str) -> bool:
    """Returns whether a text occurs in a cell, whatever the case."""
    return value is not None and text.lower() in value.lower()


class Frame(Generic[R]):
    """A table whose rows have an identifier, which agents see, and labels, which they do not see.

    Args:
        service: The service that has the table.
        row: Struct of a row: `position: int`, then a text, which may be absent, for each column.
        name: Plural noun.
        identifier: Field of the identifier.
        file: Name of the CSV file.
        columns: Names of columns by field, where they differ.
    """

    def __init__(
        self,
        service: Service,
        row: type[R],
        name: str,
        *,
        identifier: str,
        file: str,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        service.table(name, indexes=[(identifier,)])(row)
        self._row, self._identifier, self._file = row, identifier, file
        self.columns: dict[str, str] = {
            (columns or {}).get(field, field): field for field in row.__struct_fields__ if field != POSITION
        }
        """Fields by name of the column."""
        self._labels: type[Any] = msgspec.defstruct(
            f"{row.__name__}Labels", [("id", int), ("size", int), ("labels", str)], frozen=True, module=row.__module__
        )
        service.table(f"{name}_labels")(self._labels)

    def fill(self, make: Generator, knobs: WorkBenchKnobs) -> None:
        """Adds the rows of the file, and sets the clock. Raises `ValueError`."""
        table = read_database(knobs, self._file, list(self.columns))
        fields = (POSITION, *self.columns.values())
        try:
            rows = [
                msgspec.convert(dict(zip(fields, (number, *cells), strict=True)), self._row)
                for number, cells in enumerate(table)
            ]
        except msgspec.ValidationError as exc:
            raise ValueError(f"{self._file} in {knobs.data} does not fit this domain: {exc}") from exc
        make.insert_all(rows)
        make.insert(self._labels(0, len(rows), ""))
        start_clock(make)

    def rows(self, tx: Transaction) -> list[R]:
        """Returns all rows, in their order."""
        return tx.find(self._row, order_by=POSITION)

    def with_identifier(self, tx: Transaction, value: str) -> list[R]:
        """Returns the rows that have an identifier, which an update can give to several; in their order."""
        return tx.select(self._row, f"{self._identifier} = ?", value, order_by=POSITION)

    def next_identifier(self, tx: Transaction, digits: int = 0) -> str:
        """Returns the largest identifier plus one, with leading zeros. Raises `ActionError` if it is not a number."""
        last = tx.select(self._row, "", order_by=f"-{self._identifier}", limit=1)
        largest = getattr(last[0], self._identifier) if last else ""
        try:
            return str(int(largest) + 1).zfill(digits)
        except ValueError:
            tx.refuse(f"invalid literal for int() with base 10: {largest[:80]!r}", "conflict")

    def update(self, tx: Transaction, rows: Iterable[R], field: str, value: str) -> None:
        """Sets a field of rows."""
        for row in rows:
            tx.update(row, **{field: value})

    def record(self, row: R) -> Record:
        """Returns a row as agents read it."""
        return {column: getattr(row, field) for column, field in self.columns.items()}

    def remove(self, tx: Transaction, rows: Iterable[R]) -> None:
        """Removes rows; those behind them keep their labels."""
        labels = self._read_labels(tx)
        for row in rows:
            tx.delete(row)
            labels.pop(getattr(row, POSITION), None)
        self._store_labels(tx, labels)

    def append(self, tx: Transaction, **values: str | None) -> None:
        """Adds a row, and keeps the labels of the others, as `pandas.concat([rows, row])`: its own one is 0.

        A row's label then follows from whether it was added, so that nothing has to be stored.
        """
        tx.insert(self._row(self._next_position(tx), **values))

    def append_relabelled(self, tx: Transaction, **values: str | None) -> None:
        """Adds a row and labels all rows anew, as `pandas.concat([rows, row], ignore_index=True)`."""
        tx.insert(self._row(self._next_position(tx), **values))
        self._store_labels(tx, {position: label for label, position in enumerate(self._positions(tx))})

    def assign_last(self, tx: Transaction, **values: str | None) -> None:
        """Stores a row under the label that is the number of rows, as `rows.loc[len(rows)] = ...`.

        A row that has this label, because another one was removed, is overwritten: so it is in WorkBench.
        """
        label = tx.count(self._row)
        labels = self._read_labels(tx) or {position: position for position in self._positions(tx)}
        overwritten = next((position for position, other in labels.items() if other == label), None)
        if overwritten is not None:
            tx.update(tx.get(self._row, overwritten), **values)
            return
        added = self._next_position(tx)
        tx.insert(self._row(added, **values))
        self._store_labels(tx, labels | {added: label})

    def _next_position(self, tx: Transaction) -> int:
        """Returns the position of the next row, which is larger than that of every row of the file."""
        last = tx.select(self._row, "", order_by=f"-{POSITION}", limit=1)
        after_last: int = getattr(last[0], POSITION) + 1 if last else 0
        size: int = tx.get(self._labels, 0).size
        return max(size, after_last)

    def _positions(self, tx: Transaction) -> list[int]:
        return [getattr(row, POSITION) for row in self.rows(tx)]

    def _read_labels(self, tx: Transaction) -> dict[int, int]:
        """Returns the label of each row by its position, in their order; empty if labels equal positions."""
        text = tx.get(self._labels, 0).labels
        return dict(zip(self._positions(tx), _read_ranges(text), strict=True)) if text else {}

    def _store_labels(self, tx: Transaction, labels: Mapping[int, int]) -> None:
        """Stores labels; an empty text stands for those that equal positions."""
        is_plain = all(position == label for position, label in labels.items())
        before = tx.get(self._labels, 0)
        text = "" if is_plain else _write_ranges(list(labels.values()))
        if text != before.labels:
            tx.update(before, labels=text)


def _read_ranges(text: str) -> list[int]:
    """Returns the numbers of `0-3 7 5`: 0, 1, 2, 3, 7, 5."""
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _write_ranges(numbers: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
