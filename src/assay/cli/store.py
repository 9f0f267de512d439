"""`assay seal` and `assay gc`."""

from __future__ import annotations

from typing import Annotated

import typer

from .output import console, emit_json, quantity, say
from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with


def seal(
    run: RunArgument = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Seal an interrupted run; it can never be resumed.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Converts a finished run to Parquet tables; sealed data is never rewritten.

    Store the printed head elsewhere: it reveals a complete rewrite of the run.

    Examples:

      assay seal

      assay seal my-run --json

      assay seal a-run-that-was-cut --unfinished
    """
    from assay.rollout import require_finished
    from assay.store import seal as seal_run

    settings = settings_with(store)
    name = pick_run(run, settings)
    if not unfinished:
        require_finished(settings.store, name)
    report = seal_run(settings.store, name)
    if as_json:
        emit_json(report)
        return
    done = "was sealed before" if report.already else "is sealed"
    cut = f"; never ended: {quantity(len(report.unfinished), 'chain')}" if report.unfinished else ""
    console().print(
        f"run {report.run} {done}: {quantity(report.chains, 'chain')}, {quantity(report.events, 'event')}{cut}\n"
        f"head {report.head}\nkeep it elsewhere, or a receipt (`assay receipt {report.run} --out FILE`): nothing else "
        "shows a complete rewrite"
    )


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")] = False,
    evidence: Annotated[
        bool,
        typer.Option("--evidence", help="Also delete blobs of unsealed runs alone: their evidence is lost."),
    ] = False,
    layers: Annotated[
        float | None,
        typer.Option(
            "--layers",
            min=0.0,
            metavar="GIB",
            help="Instead remove layers of sandboxes from the cache that are not in use, the least recently used "
            "first, until all have at most so many GiB together.",
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deletes unreferenced blobs; keeps evidence unless --evidence is given. With --layers, cleans the cache instead.

    Examples:

      assay gc --dry-run

      assay gc

      assay gc --evidence --dry-run

      assay gc --layers 20
    """
    if layers is not None:
        _remove_layers(layers, dry_run=dry_run, as_json=as_json)
        return
    from assay.store import gc as collect

    report = collect(settings_with(store).store, dry_run=dry_run, evidence=evidence)
    if as_json:
        emit_json(report)
    else:
        what = "would drop" if dry_run else "dropped"
        freed = report.bytes_freed / 2**20
        console().print(
            f"{what} {quantity(len(report.blobs), 'blob')} that no run refers to ({freed:.1f} MiB) and "
            f"{quantity(len(report.temporary), 'left-over temporary file')}; "
            f"kept {quantity(report.kept, 'blob')} that runs refer to"
        )
        if report.young:
            say(f"{report.young} more are younger than an hour or than an active run: repeat this later")


def _remove_layers(most_gib: float, *, dry_run: bool, as_json: bool) -> None:
    from assay.environments.workspace.layer_use import clean_layers

    cache = settings_with(None).cache
    report = clean_layers(cache, int(most_gib * 2**30), dry_run=dry_run)
    if as_json:
        emit_json(report)
        return
    what = "would remove" if dry_run else "removed"
    for name in report.removed:
        console().print(f"{what} {name}")
    console().print(
        f"{what} {quantity(len(report.removed), 'layer')} ({report.bytes_freed / 2**20:.1f} MiB) of {cache}; "
        f"kept {report.kept} ({report.bytes_kept / 2**20:.1f} MiB)"
    )
    if report.in_use:
        say(f"{quantity(report.in_use, 'layer')} in use, or used just now: repeat this later")
