"""SQL over all runs of a store, in place, with DuckDB.

Sealed runs are read as the Parquet files that they are. Of live runs the tables that the statement names are written
first, as far as no query has written them before (see `live`). Addenda are read with the runs that they belong to.

The statement may be hostile (it may come from a model). Covered: exactly one SELECT statement; no file but the
tables', no network, no extension, no setting, no variable of this process; bounded memory, time and rows.
Not covered: bugs of DuckDB with hostile Parquet bytes; audit a store that others wrote before querying it.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.errors import StoreError, UserError, escape_surrogates

from .addendum_tables import addendum_tables
from .database import store_errors
from .frames import make_frame, make_table
from .layout import Layout, list_runs
from .live_tables import live_tables
from .run import RunStore
from .tables import ADDED, IN_QUERIES, TABLES, TIMES, VIEWS, timestamp_of, view_statement

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_WORD = re.compile(r"[a-z_]+")
_LISTS = {"show", "describe", "information_schema", "duckdb_tables", "duckdb_views", "duckdb_columns"}
_LOCKED_DOWN: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}
_ZONED = "TIMESTAMP WITH TIME ZONE"
EXAMPLE = "select agent, outcome, count(*) from trajectories where final group by all"
_READS = "one SELECT statement over the tables " + ", ".join((*TABLES, *VIEWS))


class QueryLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one query."""

    rows: int = 10_000
    """Rows of the result; more are cut, and the result says so."""
    memory_mib: int = 1024
    """DuckDB's memory; the rest spills to a temporary folder."""
    disk_mib: int = 8192
    """Of that folder."""
    time_s: float = 300.0
    threads: int = 2
    result_mib: int = 256
    """Of the result; a larger one is an error."""


class QueryResult(msgspec.Struct, frozen=True):
    """Columns and rows, in the statement's order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: bool = False
    """There were more rows than the limit allows."""
    types: tuple[str, ...] = ()
    """DuckDB's type of each column."""

    def arrow(self) -> pa.Table:
        """Returns the rows as an Arrow table; timestamps are UTC."""
        return make_table(self.columns, self.types, self.rows)

    def df(self, library: str | None = None) -> Any:
        """Returns the rows as a data frame of pandas, else of polars; `library` names one of them.

        Raises:
            MissingLibraryError: The library is not installed.
        """
        return make_frame(self.arrow(), library)


def query(
    root: Path,
    sql: str,
    *,
    runs: Sequence[str] | None = None,
    limit: int | None = None,
    bounds: QueryLimits | None = None,
) -> QueryResult:
    """Runs one SELECT over `trajectories`, `steps`, `calls`, `verdicts`, `evidence` and `events`, and over the results
    of admissions: `certificates` and `findings`.

    Reads all runs if none are named; `limit` replaces `bounds.rows`.

    Raises:
        UserError: The statement is not one SELECT, is invalid, uses a disabled feature, or exceeds a limit; or there
            is not a run.
        StoreError: A run is missing or damaged.
    """
    bounds = bounds or QueryLimits()
    if limit is not None:
        bounds = msgspec.structs.replace(bounds, rows=limit)
    if bounds.rows < 1:
        raise UserError(f"the limit must be at least 1 row, got {bounds.rows}: raise the limit")
    return run_query(root, named_tables(sql), runs, bounds, (sql, {}))


def named_tables(sql: str) -> list[str]:
    """Returns the tables that a statement reads. Raises `UserError` if it is not one SELECT."""
    if not isinstance(sql, str):
        raise UserError(f"the query must be a text, {_READS}; this is a {type(sql).__name__}")
    _require_select(sql)
    words = set(_WORD.findall(sql.lower()))
    views = [name for name in VIEWS if name in words]
    wanted = words | ({"evidence"} if views else set())
    return [name for name in TABLES if name in wanted] or [name for name in TABLES if words & _LISTS]


def run_query(
    root: Path,
    names: Sequence[str],
    runs: Sequence[str] | None,
    bounds: QueryLimits,
    statement: tuple[str, dict[str, Any]],
) -> QueryResult:
    """Runs a checked statement over the named tables; repeats it where a run was sealed meanwhile."""
    chosen = list(runs or list_runs(root))
    live = [run for run in chosen if not Layout(root, run).is_sealed]
    try:
        with _open_views(root, names, chosen, bounds) as connection:
            return _run_with_timeout(connection, statement, bounds)
    except StoreError:
        if not any(Layout(root, run).is_sealed for run in live):
            raise
    with _open_views(root, names, chosen, bounds) as connection:
        return _run_with_timeout(connection, statement, bounds)


class QueryTables(NamedTuple):
    """The Parquet files of tables, by name."""

    files: dict[str, list[Path]]
    added: dict[str, list[Path]]
    """Rows that addenda add."""


def query_tables(tables: QueryTables, sql: str, bounds: QueryLimits) -> QueryResult:
    """Runs a checked statement (`named_tables`) over files. Raises as `query`."""
    with tempfile.TemporaryDirectory(prefix="assay-query-") as scratch:
        connection = _connect_locked(tables, Path(scratch) / "spill", bounds)
        try:
            return _run_with_timeout(connection, (sql, {}), bounds)
        finally:
            _close(connection)


def _require_select(sql: str) -> None:
    import duckdb

    if escape_surrogates(sql) != sql:
        raise UserError(f"the query holds a byte that is not UTF-8: {sql[:100]}")
    with _duckdb_errors(), contextlib.closing(duckdb.connect(":memory:", config=_LOCKED_DOWN)) as connection:
        statements = connection.extract_statements(sql)
    kinds = [str(s.type).removeprefix("StatementType.") for s in statements]
    if kinds != ["SELECT"]:
        found = ", ".join(kinds) or "nothing"
        raise UserError(f"the query must be {_READS}; this is {found}")


def _run_with_timeout(
    connection: duckdb.DuckDBPyConnection, statement: tuple[str, dict[str, Any]], bounds: QueryLimits
) -> QueryResult:
    """Runs a checked statement and interrupts it after `time_s`.

    DuckDB runs in a thread of its own, because a keyboard interrupt does not stop it.
    """
    from concurrent.futures import wait  # late, as the next: other readers of a store need no threads

    from assay.threads import start_thread

    working = start_thread("assay-query", _execute, connection, statement, bounds)
    try:
        wait([working], bounds.time_s)
    finally:
        while not working.done():  # it may not have begun when it is first interrupted
            connection.interrupt()
            wait([working], 0.02)
    return working.result()


def _execute(
    connection: duckdb.DuckDBPyConnection, statement: tuple[str, dict[str, Any]], bounds: QueryLimits
) -> QueryResult:
    sql, named = statement
    with _duckdb_errors():
        done = connection.execute(sql, named) if named else connection.execute(sql)
        if _ZONED in (str(c[1]) for c in done.description or ()):
            sql = _as_utc(sql, done.description or ())
            done = connection.execute(sql, named) if named else connection.execute(sql)
        columns = _distinct_names([c[0] for c in done.description or ()])
        types = tuple(str(c[1]) for c in done.description or ())
        rows = _fetch_rows(done, bounds)
    return QueryResult(columns, tuple(rows[: bounds.rows]), len(rows) > bounds.rows, types)


def _as_utc(sql: str, columns: Sequence[tuple[Any, ...]]) -> str:
    """Returns the statement with times with a zone, such as `now()`, as times in UTC, which the tables hold: DuckDB
    needs pytz for the others."""
    chosen = (
        f"#{number} AT TIME ZONE 'UTC' AS {_quoted(str(c[0]))}" if str(c[1]) == _ZONED else f"#{number}"
        for number, c in enumerate(columns, 1)
    )
    return f"SELECT {', '.join(chosen)} FROM ({sql.strip().rstrip(';')}\n)"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _fetch_rows(done: duckdb.DuckDBPyConnection, bounds: QueryLimits) -> list[tuple[Any, ...]]:
    """Fetches the rows and one more, in small batches: DuckDB's memory limit does not cover Python objects."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    while len(rows) <= bounds.rows:
        some = done.fetchmany(min(64, bounds.rows + 1 - len(rows)))
        if not some:
            break
        rows += some
        size += sum(map(_value_bytes, some))
        if size > bounds.result_mib << 20:
            raise UserError(
                f"the result is larger than {bounds.result_mib} MiB: ask for fewer rows with --limit, or for less "
                "of each (substr, length)"
            )
    return rows


def _value_bytes(value: Any) -> int:
    """Estimates the size of a value."""
    if isinstance(value, str | bytes):
        return 64 + len(value)
    if isinstance(value, dict):
        return 64 + sum(_value_bytes(k) + _value_bytes(v) for k, v in value.items())
    return 64 + sum(map(_value_bytes, value)) if isinstance(value, list | tuple) else 32


def _distinct_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Makes column names unique by numbering repeated ones."""
    found: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in found:
            number += 1
            name = f"{column}_{number}"
        found.append(name)
    return tuple(found)


@contextlib.contextmanager
def _open_views(
    root: Path, names: Sequence[str], chosen: Sequence[str], bounds: QueryLimits
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens a locked-down connection whose views are the named tables over the runs."""
    if not chosen:
        raise UserError(f"no runs in {root}: make one with `assay run`, or name the folder with --store")
    with tempfile.TemporaryDirectory(prefix="assay-query-") as scratch:
        files: dict[str, list[Path]] = {name: [] for name in names}
        added: dict[str, list[Path]] = {name: [] for name in names}
        for number, run in enumerate(chosen):
            own = Path(scratch) / str(number)
            layout = Layout(root, run)
            for name, paths in _table_files(layout, names, own).items():
                files[name] += paths
            if layout.is_sealed:
                for name, path in addendum_tables(layout, names, own.with_name(f"{number}-addenda")).items():
                    added[name].append(path)
        connection = _connect_locked(QueryTables(files, added), Path(scratch) / "spill", bounds)
        try:
            yield connection
        finally:
            _close(connection)


def _close(connection: duckdb.DuckDBPyConnection) -> None:
    """Closes a connection. A thread may still use it: a keyboard interrupt can come before anybody waits for that."""
    import duckdb

    until = time.monotonic() + 5
    while True:
        connection.interrupt()
        try:
            connection.close()
        except duckdb.Error:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _table_files(layout: Layout, names: Sequence[str], scratch: Path) -> dict[str, list[Path]]:
    """Returns the Parquet files of a run's tables."""
    layout.require()
    sealed = {name: [layout.sealed.absolute() / f"{name}.parquet"] for name in names}
    if layout.is_sealed:
        return sealed
    with RunStore.open(layout.root, layout.run) as store:
        if store.is_sealed:  # at this moment
            return sealed
        with store_errors(scratch):
            scratch.mkdir()
        with store.snapshot():
            return live_tables(store, names, scratch)


def _connect_locked(tables: QueryTables, spill: Path, bounds: QueryLimits) -> duckdb.DuckDBPyConnection:
    import duckdb

    files, added = tables
    config = _LOCKED_DOWN | {
        "memory_limit": f"{bounds.memory_mib}MiB",
        "max_temp_directory_size": f"{bounds.disk_mib}MiB",
        "temp_directory": str(spill),
        "threads": bounds.threads,
    }
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(f"SET allowed_paths = {_sql_list(chain.from_iterable((*files.values(), *added.values())))}")
        connection.execute("SET enable_external_access = false")
        # It would be written among the results. In a notebook without ipywidgets it is off, and cannot be set.
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() != (False,):
            connection.execute("SET enable_progress_bar = false")
        connection.execute("SET lock_configuration = true")
        for name, paths in files.items():
            connection.execute(f"CREATE VIEW {name} AS {_view_sql(name, paths, added[name])}")
        for name in VIEWS if "evidence" in files else ():
            connection.execute(f"CREATE VIEW {name} AS {view_statement(name)}")
    except duckdb.Error as exc:
        connection.close()
        raise StoreError(f"a run's tables cannot be read: {exc} (`assay verify RUN` says which is damaged)") from exc
    return connection


def _view_sql(name: str, paths: Sequence[Path], added: Sequence[Path]) -> str:
    extra = "".join(f", NULL::BIGINT AS {column}" for column in IN_QUERIES.get(name, {}))
    whole = f"SELECT *{extra} FROM read_parquet({_sql_list(paths)}, union_by_name = {name in ADDED})"
    if added:
        whole = f"{whole} UNION ALL BY NAME SELECT * FROM read_parquet({_sql_list(added)})"
    return _with_timestamps(_fill_added_columns(whole, ADDED.get(name, {})), TIMES.get(name, ()))


def _with_timestamps(statement: str, columns: Sequence[str]) -> str:
    """Converts columns from seconds to timestamps."""
    if not columns:
        return statement
    converted = ", ".join(f'{timestamp_of(column)} AS "{column}"' for column in columns)
    return f"SELECT * REPLACE ({converted}) FROM ({statement})"


def _fill_added_columns(statement: str, defaults: Mapping[str, str | None]) -> str:
    """Adds the columns that runs sealed by an older version lack, with their values there."""
    if not defaults:
        return statement
    typed = ", ".join(f"NULL::VARCHAR AS {column}" for column in defaults)
    every = f"({statement} UNION ALL BY NAME SELECT {typed} WHERE false)"
    values = ((column, value) for column, value in defaults.items() if value is not None)
    filled = ", ".join(f"COALESCE({column}, '{value}') AS {column}" for column, value in values)
    return f"SELECT *{f' REPLACE ({filled})' if filled else ''} FROM {every}"


def _sql_list(paths: Iterable[Path]) -> str:
    return "[" + ", ".join("'" + str(p).replace("'", "''") + "'" for p in paths) + "]"


@contextlib.contextmanager
def _duckdb_errors() -> Iterator[None]:
    """Converts DuckDB's errors to ours, with a remedy."""
    import duckdb

    try:
        yield
    except duckdb.PermissionException as exc:
        raise UserError(f"{exc} (a query reads {_READS}, and nothing else)") from exc
    except duckdb.ParserException as exc:
        problem = str(exc).splitlines()[0].removeprefix("Parser Error: ").rstrip(":")
        raise UserError(f"the query is not valid SQL, {problem}: write {_READS}; for example {EXAMPLE!r}") from exc
    except duckdb.CatalogException as exc:
        told = str(exc)
        if "Table" in told:  # its own proposals are names of its catalogue, where our tables are not yet
            lines = [line for line in told.splitlines() if not line.startswith("Did you mean")]
            told = "\n".join([*lines, f"(tables are named literally: {', '.join((*TABLES, *VIEWS))})"])
        raise UserError(told) from exc
    except duckdb.InterruptException as exc:
        raise UserError("the query took too long and was stopped: narrow it with WHERE or --run") from exc
    except duckdb.OutOfMemoryException as exc:
        raise UserError(f"{exc} (narrow the query with WHERE or --run)") from exc
    except (duckdb.IOException, duckdb.InternalException) as exc:
        raise StoreError(f"a run's tables cannot be read: {exc} (`assay verify RUN` says which is damaged)") from exc
    except duckdb.Error as exc:
        if "Required module" in str(exc):
            raise UserError(
                "a column holds lists or tables of times with a time zone, which need the library pytz: convert them "
                "to times without one (value::TIMESTAMP)"
            ) from exc
        raise UserError(str(exc)) from exc
