"""Writes a run's tables as Parquet (zstd), in memory bounded by a row group and the largest event.

Rows lie in order of their chains, and row groups are bounded by bytes, so that a reader finds a chain by the
statistics of the groups. Sealing and querying a live run write through the same code.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from assay.errors import StoreError

from .chain import decode_event
from .database import store_errors
from .run import RunStore
from .tables import TABLES, arrow_schema, event_rows, trajectory_row

GROUP_BYTES = 2 << 20  # smaller ones make footers that take longer to read than they save, larger ones slow point reads
GROUP_ROWS = 16_384
LEVEL = 3  # a tenth smaller than 1 for a tenth more of sealing; 9 gives 3% more for four times the time
_ROW_COST = 256  # what a row takes beside its event's text
_LARGE = {"message", "reasoning", "request", "response", "body", "row", "data", "reason", "error"}
_RANDOM = {"previous", "digest", "head", "state", "verifier", "call", "id"}
"""No reader can leave out a row group by their smallest and largest value, and footers would be twice as large."""
_REPEATED = {"run", "chain", "attempt", "task", "task_digest", "agent", "model", "type", "actor", "status", "kind"}
_INT64 = range(-(2**63), 2**63)


class TableWriter:
    """Writes one table, a row group at a time."""

    def __init__(self, path: Path, name: str) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self.schema = arrow_schema(name)
        self._columns = list(TABLES[name])
        counted = [c for c, kind in TABLES[name].items() if c not in _LARGE | _RANDOM and not kind.startswith("list")]
        repeated = [c for c in self._columns if c in _REPEATED]
        with store_errors(path):
            self._writer = pq.ParquetWriter(
                path,
                self.schema,
                compression="zstd",
                compression_level=LEVEL,
                write_statistics=counted,
                use_dictionary=repeated,
            )
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, row: dict[str, Any], size: int) -> None:
        """Adds a row whose texts have about `size` bytes."""
        self._rows.append(row)
        self._bytes += size + _ROW_COST
        if self._bytes >= GROUP_BYTES or len(self._rows) >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        """Writes the remaining rows and the footer. A table without rows is a file with a schema."""
        if self._rows:
            self._flush()
        with store_errors(self.path):
            self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        arrays = [_to_arrow([r[c] for r in self._rows], self.schema.field(c).type) for c in self._columns]
        with store_errors(self.path):
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=GROUP_ROWS)
        self._rows, self._bytes = [], 0

    def __enter__(self) -> Self:
        """Opens a context that closes the file, also after an error."""
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(OSError):  # the error that brought us here says more
            self._writer.close()


def write_tables(store: RunStore, folder: Path, names: Sequence[str] = tuple(TABLES)) -> Counter[str]:
    """Writes tables of a run into a folder, one file each, and returns the row counts.

    Raises:
        StoreError: The run is damaged, or the folder cannot be written.
    """
    counts: Counter[str] = Counter(dict.fromkeys(names, 0))
    with contextlib.ExitStack() as stack:
        writers = {n: stack.enter_context(TableWriter(folder / f"{n}.parquet", n)) for n in names}
        rows = {row.chain: row for row in sorted(store.attempts(), key=attrgetter("chain"))}
        if "trajectories" in writers:
            for row in rows.values():
                writers["trajectories"].add(trajectory_row(row), 1024)
            counts["trajectories"] = len(rows)
        if set(writers) <= {"trajectories"}:
            return counts
        for chain, links in groupby(store.links(), key=attrgetter("chain")):
            if chain not in rows:
                raise StoreError(
                    f"chain {chain!r} of run {store.run} has events and no row: run `assay verify --chain`"
                )
            for stored in links:
                for name, record in event_rows(rows[chain], decode_event(stored), stored.body):
                    if name in writers:
                        writers[name].add(record, len(stored.body))
                        counts[name] += 1
    return counts


def require_rows_of(run: str, table: bytes, where: str) -> None:
    """Requires that a table is one of Assay's, and that its rows are of a run, by the statistics of its footer.

    Raises:
        StoreError: It is no table, or has rows of another run.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(pa.BufferReader(table))
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise StoreError(f"{where} is no table: {str(exc)[:200]}") from exc
    column = next((n for n in range(footer.num_columns) if footer.schema.column(n).path == "run"), None)
    groups = [group for group in map(footer.row_group, range(footer.num_row_groups)) if group.num_rows]
    for group in groups:
        counted = None if column is None else group.column(column).statistics
        if counted is None or not counted.has_min_max or {counted.min, counted.max} != {run}:
            raise StoreError(f"{where} is no table of run {run!r}: it was exchanged")


def _to_arrow(values: Iterable[Any], kind: Any) -> Any:
    """Converts values to an Arrow array; an integer beyond 64 bits becomes null (the event keeps it)."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (OverflowError, pa.lib.ArrowInvalid):
        return pa.array([fit_int64(v) for v in values], kind)


def read_rows(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a table's file, in bounded memory.

    Raises:
        StoreError: It cannot be read, or has other columns.
    """
    import pyarrow.lib
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(arrow_schema(name)):
                raise StoreError(f"{path} does not have the columns of table `{name}`")
            for group in range(file.metadata.num_row_groups):
                for batch in file.iter_batches(1024, row_groups=[group], use_threads=False):
                    yield from batch.to_pylist()
    except (OSError, pyarrow.lib.ArrowException, ValueError) as exc:
        raise StoreError(
            f"{path} cannot be read: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}"
        ) from exc


def fit_int64(value: Any) -> Any:
    """Replaces integers beyond 64 bits, which no column can hold, with None."""
    if isinstance(value, int):
        return value if value in _INT64 else None
    if isinstance(value, list | tuple):
        return [fit_int64(v) for v in value]
    return value


def is_same_row(actual: dict[str, Any] | None, record: dict[str, Any]) -> bool:
    """Returns whether a row that was read back equals the written one."""
    return actual is not None and (actual == record or actual == {k: fit_int64(v) for k, v in record.items()})
