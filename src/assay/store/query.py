"""SQL over all runs of a store, in place, with DuckDB.

Sealed runs are read as the Parquet files that they are; live runs are written to a temporary folder first, only the
tables that the statement names.

The statement may be hostile (it may come from a model). Covered: exactly one statement that reads; no file but the
tables', no network, no extension, no setting, no variable of this process; bounded memory, time and rows.
Not covered: what DuckDB itself gets wrong with hostile Parquet bytes; audit a store that others wrote before querying.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.errors import StoreError, UserError

from .layout import Layout, list_runs
from .parquet import write_tables
from .run import RunStore
from .tables import TABLES

if TYPE_CHECKING:
    import duckdb

__all__ = ["Bounds", "QueryResult", "query", "tables_opened"]

_WORD = re.compile(r"[a-z_]+")
_LISTS = {"show", "describe", "information_schema", "duckdb_tables", "duckdb_views", "duckdb_columns"}
_READS = "one SELECT statement over the tables " + ", ".join(TABLES)


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a statement may take."""

    rows: int = 10_000
    """Rows of the result; more are cut, and the result says so."""
    memory_mib: int = 1024
    """DuckDB's memory; what does not fit goes to a temporary folder."""
    disk_mib: int = 8192
    """Of that folder."""
    time_s: float = 300.0
    threads: int = 2


class QueryResult(msgspec.Struct, frozen=True):
    """Columns and rows, in the statement's order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: bool = False
    """There were more rows than the limit allows."""


def query(
    root: Path, sql: str, *, runs: Sequence[str] | None = None, limit: int | None = None, bounds: Bounds | None = None
) -> QueryResult:
    """Runs one SELECT over `trajectories`, `steps`, `calls`, `verdicts`, `evidence` and `events`.

    Args:
        root: The store's folder.
        sql: The statement.
        runs: Names of runs; all where there is none.
        limit: Rows of the result, in place of `bounds.rows`.
        bounds: What the statement may take.

    Raises:
        UserError: The statement is not one SELECT, asks for what is closed, is wrong, or takes too much; or there
            is no run.
        StoreError: A run is missing or damaged.
    """
    bounds = bounds or Bounds()
    words = set(_WORD.findall(sql.lower()))
    names = [name for name in TABLES if name in words] or [name for name in TABLES if words & _LISTS]
    with tables_opened(root, names, runs, bounds) as connection:
        with _explained():
            statements = connection.extract_statements(sql)
        kinds = [str(s.type).removeprefix("StatementType.") for s in statements]
        if kinds != ["SELECT"]:
            found = ", ".join(kinds) or "nothing"
            message = f"the query must be {_READS}; this is {found}"
            raise UserError(message)
        return run_bounded(connection, sql, limit=bounds.rows if limit is None else limit, time_s=bounds.time_s)


def run_bounded(
    connection: duckdb.DuckDBPyConnection, sql: str, named: dict[str, Any] | None = None, *, limit: int, time_s: float
) -> QueryResult:
    """Runs a checked statement, interrupted when its time is over."""
    watch = threading.Timer(time_s, connection.interrupt)
    watch.daemon = True
    watch.start()
    try:
        with _explained():
            done = connection.execute(sql, named) if named else connection.execute(sql)
            columns = tuple(c[0] for c in done.description or ())
            rows = done.fetchmany(limit + 1)
    finally:
        watch.cancel()
    return QueryResult(columns, tuple(rows[:limit]), len(rows) > limit)


@contextlib.contextmanager
def tables_opened(
    root: Path, names: Sequence[str], runs: Sequence[str] | None, bounds: Bounds
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A locked connection whose views are the named tables over the runs."""
    chosen = list(runs or list_runs(root))
    if not chosen:
        message = f"no runs in {root}: make one with `assay run`, or name the folder with --store"
        raise UserError(message)
    with tempfile.TemporaryDirectory(prefix="assay-query-") as scratch:
        folders = [_tables_of(root, run, names, Path(scratch) / str(n)) for n, run in enumerate(chosen)]
        connection = _locked(folders, names, Path(scratch) / "spill", bounds)
        try:
            yield connection
        finally:
            connection.close()


def _tables_of(root: Path, run: str, names: Sequence[str], scratch: Path) -> Path:
    """The folder with a run's Parquet files."""
    layout = Layout(root, run)
    layout.require()
    if layout.is_sealed:
        return layout.sealed.absolute()
    with RunStore.open(root, run) as store:
        if store.layout.is_sealed and not store.layout.sqlite.exists():  # it was sealed at this moment
            return layout.sealed.absolute()
        with store.snapshot():
            scratch.mkdir()
            write_tables(store, scratch, names)
    return scratch


def _locked(folders: Sequence[Path], names: Sequence[str], spill: Path, bounds: Bounds) -> duckdb.DuckDBPyConnection:
    import duckdb

    files = {name: [str(folder / f"{name}.parquet") for folder in folders] for name in names}
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{bounds.memory_mib}MiB",
            "max_temp_directory_size": f"{bounds.disk_mib}MiB",
            "temp_directory": str(spill),
            "threads": bounds.threads,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )
    try:
        connection.execute(f"SET allowed_paths = {_listed(p for paths in files.values() for p in paths)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for name, paths in files.items():
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({_listed(paths)})")
    except duckdb.Error as exc:
        connection.close()
        message = f"a sealed run cannot be read: {exc} (`assay verify --chain` says which)"
        raise StoreError(message) from exc
    return connection


def _listed(paths: Iterator[str] | Sequence[str]) -> str:
    return "[" + ", ".join("'" + p.replace("'", "''") + "'" for p in paths) + "]"


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """DuckDB's errors with its own words and what to do."""
    import duckdb

    try:
        yield
    except duckdb.PermissionException as exc:
        message = f"{exc} (a query reads {_READS}, and nothing else)"
        raise UserError(message) from exc
    except duckdb.CatalogException as exc:
        message = f"{exc} (tables are named literally: {', '.join(TABLES)})"
        raise UserError(message) from exc
    except duckdb.InterruptException as exc:
        message = "the query took too long and was stopped: narrow it with WHERE or --runs"
        raise UserError(message) from exc
    except duckdb.OutOfMemoryException as exc:
        message = f"{exc} (narrow the query with WHERE or --runs)"
        raise UserError(message) from exc
    except (duckdb.IOException, duckdb.InternalException) as exc:
        message = f"a sealed run cannot be read: {exc} (`assay verify --chain` says which)"
        raise StoreError(message) from exc
    except duckdb.Error as exc:
        raise UserError(str(exc)) from exc
