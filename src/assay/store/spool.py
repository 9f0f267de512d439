"""Rows of a spool that are in memory alone, because most of them need never be written.

A node needs the record of a trial until the place has it, some milliseconds after its end. What is larger, or stays
longer because the place does not answer, goes to the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .rows import RowBuilder

MOST_BYTES = 8 << 20
"""Above it all rows are written."""
ROW_BYTES = 512
"""Memory of a row besides its event."""

EventRow = tuple[Any, ...]
"""Chain, index, type, bytes, digest before, digest."""


class UnwrittenRows:
    """Rows by chain, with the summary of each chain."""

    def __init__(self) -> None:
        self._rows: dict[str, list[EventRow]] = {}
        self._builders: dict[str, RowBuilder] = {}
        self._bytes = 0
        self.is_file_empty = True
        """True until rows were written."""

    def __contains__(self, chain: str) -> bool:
        return chain in self._rows

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def is_full(self) -> bool:
        return self._bytes > MOST_BYTES

    def add(self, builder: RowBuilder, rows: Sequence[EventRow]) -> None:
        """Adds rows of one chain, which `builder` has folded."""
        chain = builder.fields["chain"]
        self._rows.setdefault(chain, []).extend(rows)
        self._builders[chain] = builder
        self._bytes += _size(rows)

    def forget(self, chain: str) -> None:
        """Drops a chain, unless the file has its beginning."""
        rows = self._rows.get(chain)
        if rows and rows[0][1] == 0:
            self._bytes -= _size(rows)
            del self._rows[chain], self._builders[chain]

    def events(self) -> list[EventRow]:
        return [row for rows in self._rows.values() for row in rows]

    def summaries(self) -> list[tuple[str, bytes]]:
        """Returns the summary row of each chain."""
        return [(chain, builder.encode()) for chain, builder in self._builders.items()]

    def clear(self) -> None:
        """Drops all rows, which the file has now."""
        self._rows, self._builders, self._bytes, self.is_file_empty = {}, {}, 0, False


def _size(rows: Sequence[EventRow]) -> int:
    return sum([len(row[3]) for row in rows]) + ROW_BYTES * len(rows)
