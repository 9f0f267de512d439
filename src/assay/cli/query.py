"""`assay query`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import UserError
from assay.settings import Settings

from .output import emit_json, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .table_formats import FormOption
from .tables import print_rows

if TYPE_CHECKING:
    from assay.store.query import QueryLimits, QueryResult


def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="One SELECT over trajectories, steps, calls, verdicts, evidence, events, certificates, findings."
        ),
    ],
    run: Annotated[list[str] | None, typer.Option("--run", help="Only these runs; repeatable.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of rows.")] = 1000,
    store: StoreOption = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--place",
            metavar="URL",
            help="Query the runs that were copied there (`assay store copy`) instead of a store: s3://BUCKET/PREFIX, "
            "gs://..., az://..., file:///FOLDER. Only the tables that the statement names are fetched, into the cache.",
        ),
    ] = None,
    form: FormOption = "text",
    *,
    as_json: JsonOption = False,
) -> None:
    """Queries all runs of the store with SQL (DuckDB), read-only and without access to anything else.

    Examples:

      assay query "select agent, outcome, count(*) from trajectories where final group by all"

      assay query "select task, arguments, exit_codes from steps where failed" --run my-run --limit 20

      assay query "select reason, count(*) from verdicts where status = 'unknown' group by 1" --json

      assay query "select task, outcome, started from trajectories where final" --out attempts.csv

      assay query "select run, count(*) from trajectories group by 1" --place s3://my-bucket/runs
    """
    from assay.store import query as ask
    from assay.store.query import QueryLimits

    settings, bounds = settings_with(store), QueryLimits(rows=limit)
    if place is not None:
        if store is not None:
            raise UserError("--store and --place: give one of them")
        found = _query_place(place, sql, run or (), settings, bounds)
    else:
        runs = [pick_run(name, settings) for name in run] if run else None
        found = ask(settings.store, sql, runs=runs, bounds=bounds)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    if as_json or form == "json":
        emit_json({"columns": found.columns, "rows": rows, "cut": found.cut})
        return
    shown = [{name: "-" if value is None else str(value) for name, value in row.items()} for row in rows]
    print_rows(shown, empty="no rows", form=form)
    if found.cut:
        say(f"there are more rows than these {limit}: raise --limit, or narrow the query")


def _query_place(place: str, sql: str, runs: Sequence[str], settings: Settings, bounds: QueryLimits) -> QueryResult:
    import asyncio

    from assay.store.objects import open_place, query_place

    return asyncio.run(query_place(open_place(place), sql, settings.cache / "places", runs=runs, bounds=bounds))
