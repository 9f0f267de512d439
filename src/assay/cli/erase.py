"""`assay store`: copies runs to and from object storage, and erases stored bytes."""

from __future__ import annotations

from typing import Annotated

import typer

from . import objects
from .output import console, emit_json, quantity, say
from .plain_typer import plain_typer
from .shared import JsonOption, StoreOption, settings_with

_HELP = """Copies runs to and from object storage; erases stored bytes, such as secrets and personal data.

Examples:

  assay store copy .assay s3://my-bucket/runs

  assay store check s3://my-bucket/runs

  assay store erase blake3:5f3c... --reason "personal data, request 17" --dry-run

  assay store erase 5f3c9a01b2 --reason "a password in a log\""""
app = plain_typer(help=_HELP, no_args_is_help=True)


@app.callback()
def _store() -> None:
    pass


_store.__doc__ = _HELP
app.command()(objects.copy)
app.command()(objects.check)
app.command()(objects.gc)


@app.command()
def erase(
    blob: Annotated[str, typer.Argument(help="Content address of the blob, or at least its first 8 digits.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded in place of the bytes.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report which attempts refer to it.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deletes a blob for good and records that, with the reason, in every chain that refers to it.

    `assay verify` accepts a missing blob only with such a tombstone. A re-verification that needs the bytes says
    `cannot`. Text inside events stays: it cannot change without breaking the chain.

    Examples:

      assay store erase 5f3c9a01b2 --reason "a password in a log" --dry-run

      assay store erase blake3:5f3c... --reason "personal data, request 17"
    """
    from assay.store import erase_blob

    report = erase_blob(settings_with(store).store, blob, reason, dry_run=dry_run)
    if as_json:
        emit_json(report)
        return
    size = "was gone before" if report.size_bytes is None else quantity(report.size_bytes, "byte")
    verb = "would be erased" if dry_run else "is erased"
    console().print(f"{report.blob} {verb} ({size})")
    for run, chains in report.chains.items():
        console().print(f"  run {run}: {', '.join(chains)}")
    if not report.chains:
        say("no chain without a tombstone refers to it")
