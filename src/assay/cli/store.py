"""`assay seal`, `assay verify` and `assay gc`: what happens to stored runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with

__all__ = ["gc", "seal", "verify"]


def seal(
    run: RunArgument = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Seal a run that was cut as it is; it can never be resumed then.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turns a finished run into Parquet tables that any tool opens; nothing sealed is ever rewritten.

    Keep the head that it prints elsewhere: with it a complete rewrite of the run can be seen too.

    Examples:

      assay seal

      assay seal my-run --json

      assay seal a-run-that-was-cut --unfinished
    """
    from assay.rollout import require_finished
    from assay.store import seal as seal_run

    from .output import console, emit_json

    settings = settings_with(store)
    name = pick_run(run, settings)
    if not unfinished:
        require_finished(settings.store, name)
    report = seal_run(settings.store, name)
    if as_json:
        emit_json(report)
        return
    done = "was sealed before" if report.already else "is sealed"
    cut = f"; {len(report.unfinished)} chains never ended" if report.unfinished else ""
    console().print(
        f"run {report.run} {done}: {report.chains} chains, {report.events} events{cut}\n"
        f"head {report.head}\nkeep the head elsewhere: it alone shows a complete rewrite"
    )


def verify(
    run: RunArgument = None,
    chain: Annotated[
        bool,
        typer.Option(
            "--chain/--no-chain", help="Recompute the chains, and compare rows, tables, seal and addenda with them."
        ),
    ] = True,
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Read every blob that the record refers to and recompute it.")
    ] = True,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recomputes every digest of a stored run and locates what was changed, removed, inserted or lost.

    Both parts are done unless one is switched off. Exits with 1 where something does not hold. There is no key: a run
    that somebody rewrote with new digests shows only against a head that was kept elsewhere.

    Examples:

      assay verify my-run --chain

      assay verify my-run --no-blobs

      assay verify --json
    """
    from assay.errors import UserError
    from assay.store import audit

    from .output import console, emit_json
    from .tables import print_rows

    if not chain and not blobs:
        message = "nothing is left to verify: give --no-chain or --no-blobs, not both"
        raise UserError(message)
    settings = settings_with(store)
    name = pick_run(run, settings)
    problems = audit(settings.store, name, chains=chain, blobs=blobs)
    done = [word for word, is_done in (("chain", chain), ("blobs", blobs)) if is_done]
    if as_json:
        emit_json({"run": name, "verified": done, "problems": problems})
    elif problems:
        print_rows([{"problem": str(problem)} for problem in problems])
    else:
        left = "".join(f" (--no-{word}: not looked at)" for word in ("chain", "blobs") if word not in done)
        console().print(f"run {name}: every digest of {' and '.join(done)} holds{left}")
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

    from .output import console, emit_json, say

    report = collect(settings_with(store).store, dry_run=dry_run, evidence=evidence)
    if as_json:
        emit_json(report)
    else:
        what = "would drop" if dry_run else "dropped"
        freed = report.bytes_freed / 2**20
        console().print(
            f"{what} {len(report.blobs)} blobs that no run refers to ({freed:.1f} MiB) and {len(report.temporary)} "
            f"left-over temporary files; kept {report.kept} blobs that runs refer to"
        )
        if report.young:
            say(f"{report.young} more are younger than an hour, or than a run under way: run it again later")
