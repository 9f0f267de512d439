"""Net changes of a state since its initial one, folded from the journal of its database.

Folding keeps the first old row and the last new row, and drops equal ones: a write that was undone leaves no trace, and
the order of writes does not matter. The set of net changes is hashed incrementally, as the sum of one number a row
(AdHash: Bellare and Micciancio, Eurocrypt 1997), so that a call costs in proportion to what it changed. The numbers
have 2,048 bits: the generalised birthday attack on a sum of n bits takes about 2^(2 sqrt(n)) steps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from blake3 import blake3

from assay.records import canonical_bytes

from .schema import Table

_DECODE: Final = msgspec.json.Decoder(type=list[str | int | None]).decode
_BITS: Final = 2_048
_MASK: Final = (1 << _BITS) - 1


class RowChange(msgspec.Struct, frozen=True):
    """Net change of one row since the initial state: `before` is None for an added row, `after` for a removed one."""

    table: str
    key: tuple[str | int, ...]
    before: dict[str, str | int | None] | None
    after: dict[str, str | int | None] | None


class RowReplacement(NamedTuple):
    """A change of one row, as it is applied."""

    table: Table
    key: Sequence[str | int | None]
    removes: bool
    """True if there is a row with the key, which is removed."""
    row: Sequence[str | int | None] | None
    """The row that comes; None without one."""


class NetChange(msgspec.Struct, frozen=True, gc=False):
    """The net change of one row, as JSON texts of the row; None without a row."""

    first: str | None
    """In the initial state."""
    last: str | None
    """In this state."""
    number: int
    """Summand of the change in the total."""


class JournalFold:
    """Net changes by table number and key."""

    __slots__ = ("_tables", "is_whole", "nets", "seen", "total")

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.nets: dict[tuple[int, str], NetChange] = {}
        self.seen = 0
        """Sequence number of the last entry of the journal that was folded."""
        self.total = 0
        """Sum over the net changes; 0 without any."""
        self.is_whole = True
        """False while entries are read, and for ever after an exception has interrupted that."""

    def read(self, connection: sqlite3.Connection) -> None:
        """Adds the entries of the journal that are not folded yet."""
        if not self.is_whole:
            raise RuntimeError("an exception interrupted the reading of the journal: the net changes are not known")
        self.is_whole = False
        nets, total = self.nets, self.total
        query = "SELECT seq, tab, key, old, new FROM journal WHERE seq > ? ORDER BY seq"
        for seq, tab, key, old, new in connection.execute(query, (self.seen,)):
            self.seen = seq
            place = (tab, key)
            known = nets.get(place)
            if known is None:
                first = old
            else:
                first = known.first
                total -= known.number
            if first != new:
                number = self._number(tab, key, new)
                nets[place] = NetChange(first, new, number)
                total += number
            elif known is not None:
                del nets[place]
        self.total = total & _MASK  # modulo 2^n, also of a negative sum
        self.is_whole = True

    def hash(self) -> bytes:
        """Returns the incremental hash of the set of net changes."""
        return self.total.to_bytes(_BITS // 8, "big")

    def changes(self, *, judged_only: bool = False) -> tuple[RowChange, ...]:
        """Returns the net changes, sorted by table and key."""
        found = []
        for (tab, key), net in self.nets.items():
            table = self._tables[tab]
            if table.judged or not judged_only:
                before, after = _named(table, net.first), _named(table, net.last)
                found.append(RowChange(table.sql_name, tuple(_DECODE(key)), before, after))  # type: ignore[arg-type]
        return tuple(sorted(found, key=lambda change: (change.table, [str(part) for part in change.key])))

    def replacements(self) -> list[RowReplacement]:
        """Returns what leads from the initial state to this one."""
        return [
            RowReplacement(self._tables[tab], _DECODE(key), net.first is not None, _decoded(net.last))
            for (tab, key), net in self.nets.items()
        ]

    def reversals(self) -> list[RowReplacement]:
        """Returns what leads from this state to the initial one."""
        return [
            RowReplacement(self._tables[tab], _DECODE(key), net.last is not None, _decoded(net.first))
            for (tab, key), net in self.nets.items()
        ]

    def copy(self) -> JournalFold:
        """Returns the same net changes, for an empty journal."""
        other = JournalFold(self._tables)
        other.nets, other.total = dict(self.nets), self.total
        return other

    def _number(self, tab: int, key: str, row: str | None) -> int:
        content = canonical_bytes([self._tables[tab].sql_name, key, row])
        return int.from_bytes(blake3(content).digest(length=_BITS // 8), "big")


def plan_replacement(table: Table, change: RowChange) -> RowReplacement:
    """Returns a change as it is applied to the initial state. Raises `KeyError` for a row without a column."""
    row = None if change.after is None else [change.after[column.name] for column in table.columns]
    return RowReplacement(table, change.key, change.before is not None, row)


def _decoded(row: str | None) -> list[str | int | None] | None:
    return None if row is None else _DECODE(row)


def _named(table: Table, row: str | None) -> dict[str, str | int | None] | None:
    if row is None:
        return None
    return dict(zip((column.name for column in table.columns), _DECODE(row), strict=True))
