"""`assay seal`, `assay verify` and `assay gc`: what happens to stored runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with

__all__ = ["gc", "seal", "verify"]


def seal(run: RunArgument = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Turns a finished run into Parquet tables that any tool opens; nothing sealed is ever rewritten.

    Keep the head that it prints elsewhere: with it a complete rewrite of the run can be seen too.

    Examples:

      assay seal

      assay seal my-run --json
    """
    from assay.store import seal as seal_run

    from .output import console, emit_json

    settings = settings_with(store)
    report = seal_run(settings.store, pick_run(run, settings))
    if as_json:
        emit_json(report)
    else:
        console().print(f"sealed {report.run}: {report.chains} chains, {report.events} events\nhead {report.head}")


def verify(
    run: RunArgument = None,
    chain: Annotated[bool, typer.Option("--chain", help="Recompute every digest of the stored record.")] = True,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recomputes every digest of a stored run and locates what was changed, removed, inserted or lost.

    Exits with 1 where something does not hold.

    Examples:

      assay verify my-run --chain

      assay verify --json
    """
    del chain  # the only verification so far; the flag says it by name
    from assay.store import audit

    from .output import console, emit_json
    from .tables import print_rows

    settings = settings_with(store)
    name = pick_run(run, settings)
    problems = audit(settings.store, name)
    if as_json:
        emit_json({"run": name, "problems": problems})
    elif problems:
        print_rows([{"problem": str(problem)} for problem in problems])
    else:
        console().print(f"run {name}: every digest holds")
    if problems:
        raise typer.Exit(1)


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Also drop what only unsealed runs refer to: their evidence is lost.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drops blobs that no run refers to; never evidence without being told.

    Examples:

      assay gc --dry-run

      assay gc

      assay gc --evidence --dry-run
    """
    from assay.store import gc as collect

    from .output import console, emit_json

    report = collect(settings_with(store).store, dry_run=dry_run, evidence=evidence)
    if as_json:
        emit_json(report)
    else:
        what = "would drop" if dry_run else "dropped"
        freed = report.bytes_freed / 2**20
        console().print(
            f"{what} {len(report.blobs)} blobs, {freed:.1f} MiB; kept {report.kept}, too young {report.young}"
        )
