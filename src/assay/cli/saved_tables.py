"""Saves what a verb printed as a table, for a page of `assay view`.

`STORE/tables/NAME.jsonl` is a chained ledger, an entry a table. A saved table is what was counted then: attempts and
verdicts that were added later are not in it, so that its page says when it was made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from assay.errors import UserError
from assay.records import digest_record

from .output import say

MOST_ROWS = 1_000
MOST_NAME = 64


class SavedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table."""

    verb: str
    """The command without its arguments, such as `router score`."""
    runs: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chains: tuple[str, ...] = ()
    """For a table with a row for each attempt of its one run, the chain of each."""
    notes: tuple[str, ...] = ()
    """Lines that were printed below it."""
    at: float
    previous: str

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(self)


def _check_name(name: str | None) -> str | None:
    is_plain = name is None or (name.isascii() and name.replace("-", "").isalnum() and name[0] != "-")
    if name is not None and (not is_plain or len(name) > MOST_NAME):
        raise UserError(f"--save {name[:80]!r}: expected up to {MOST_NAME} letters, digits and hyphens")
    return name


SaveOption = Annotated[
    str | None,
    typer.Option(
        "--save", metavar="NAME", callback=_check_name, help="Save the table under this name, for a page of assay view."
    ),
]


def save_table(
    root: Path,
    name: str,
    verb: str,
    runs: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    *,
    notes: Sequence[str] = (),
    chains: Sequence[str] = (),
) -> None:
    """Appends a table to the ledger NAME. Raises `StoreError` if that was changed."""
    from assay.store.chained_file import ChainedFile

    columns = tuple(dict.fromkeys(column for row in rows for column in row))
    cells = tuple(tuple(row.get(column, "") for column in columns) for row in rows[:MOST_ROWS])
    notes = (*notes, *([f"{len(rows) - MOST_ROWS} further rows were not saved"] if len(rows) > MOST_ROWS else []))
    ledger = ChainedFile(root / "tables" / f"{name}.jsonl", SavedTable)
    with ledger.locked() as append:
        earlier = ledger.last()
        append(
            SavedTable(
                verb=verb, runs=tuple(runs), columns=columns, rows=cells, chains=tuple(chains[:MOST_ROWS]),
                notes=tuple(notes), at=time.time(), previous=earlier.digest if earlier is not None else "",
            )
        )  # fmt: skip
    say(f"saved as {name}: assay view shows it among the ledgers")
