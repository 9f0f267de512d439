"""Rows that addenda add to the query tables: verdicts and evidence recorded after sealing.

A row has the keys of the chain that its addendum is about, and the addendum's number; where an addendum concerns the
whole run, the keys are null. Nothing is recomputed here: `audit` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .addenda import Addendum, addenda
from .database import store_errors
from .layout import Layout
from .parquet import fit_int64
from .rows import AttemptRow
from .sealed import SealedRun
from .tables import IN_QUERIES, arrow_schema, event_rows


def addendum_tables(layout: Layout, names: Sequence[str], scratch: Path) -> dict[str, Path]:
    """Writes the rows that a sealed run's addenda add, one file for each table that has any, into a new folder.

    Raises:
        StoreError: An addendum cannot be read, or the folder cannot be written.
    """
    wanted = [name for name in names if name in IN_QUERIES]
    found = addenda(layout.root, layout.run) if wanted and layout.addenda.is_dir() else ()
    if not found:
        return {}
    with contextlib.closing(SealedRun(layout.sealed)) as sealed:
        rows = {row.chain: row for row in sealed.attempts()}
    records: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for table, record in _records(layout.run, found, rows):
        if table in records:
            records[table].append(record)
    with store_errors(scratch):
        scratch.mkdir()
    return {name: _write_table(scratch / f"{name}.parquet", name, some) for name, some in records.items() if some}


def _records(
    run: str, addenda_read: Iterable[Addendum], rows: Mapping[str, AttemptRow]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for addendum in addenda_read:
        for part in addendum.parts():
            for table, record in event_rows(rows.get(part.about or ""), part.event, b""):
                yield table, record | {"run": run, "addendum": addendum.number}


def _write_table(path: Path, name: str, records: list[dict[str, Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(name, in_queries=True)
    plain = [{key: fit_int64(value) for key, value in record.items()} for record in records]
    with store_errors(path):
        pq.write_table(pa.Table.from_pylist(plain, schema=schema), path, compression="zstd")
    return path
