"""`assay verify`: whether a stored run is still what was recorded."""

from __future__ import annotations

from typing import Annotated

import typer

from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with

__all__ = ["verify"]


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
