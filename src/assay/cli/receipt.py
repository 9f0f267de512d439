"""`assay receipt` and `assay keys`: receipts, kept elsewhere, reveal a complete rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from assay.errors import UserError
from assay.settings import Settings

from .options import takes_config
from .output import console, emit_json, quantity, say
from .plain_typer import plain_typer
from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with

_HELP = """Makes and shows the keys that sign receipts.

Examples:

  assay keys new lab.key

  assay keys show lab.key.pub"""
keys = plain_typer(help=_HELP, no_args_is_help=True)


class ReceiptConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Contents of a receipt."""

    out: str
    """File to write; never over another one."""
    sign: str | None = None
    """Private key file (`assay keys new`) that signs it."""
    attempt: str | None = None
    """Prove this attempt alone, without naming the others."""
    events: bool = False
    """With `attempt`: put all that it recorded beside the proof."""
    with_secrets: bool = False
    """With `events`: also where they hold a credential or key-shaped text; by default that is refused."""
    no_check: bool = False
    """Do not recompute the run before; else one that is damaged is refused."""

    def __post_init__(self) -> None:
        """Rejects `events` without `attempt`."""
        if self.events and self.attempt is None:
            raise UserError("--events adds one attempt's events to its proof: name the attempt with --attempt")


@takes_config(ReceiptConfig, arguments=())
def receipt(
    config: ReceiptConfig, run: RunArgument = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Writes a receipt of a run as it is now, live or sealed: the head of every chain, one root over all, the time.

    Store it where writers of the store cannot change it: `assay verify RUN --receipt FILE` then reveals a complete
    rewrite, a cut tail, and inserted or removed attempts. It is plain JSON that can be checked without Assay.

    Examples:

      assay receipt my-run --out my-run.receipt

      assay receipt my-run --out my-run.receipt --sign lab.key

      assay receipt my-run --out one.receipt --attempt hello@0 --events
    """
    from assay.store import make_receipt, write_receipt

    settings, out = settings_with(store), Path(config.out)
    name, key = pick_run(run, settings), Path(config.sign) if config.sign else None
    if config.events and not config.with_secrets:
        _refuse_secrets(name, config.attempt or "", settings)
    made = make_receipt(
        settings.store, name, key=key, attempt=config.attempt, events=config.events, check=not config.no_check
    )
    write_receipt(made, out)
    if as_json:
        emit_json({"file": str(out), "statement": made.statement, "signature": made.signature})
        return
    given = made.statement
    whose = f"signed by {made.signature.key}" if made.signature else "not signed"
    console().print(
        f"{out}: run {name}, {given.state}, {quantity(given.chains, 'chain')}, {quantity(given.events, 'event')}, "
        f"{quantity(given.addenda, 'addendum')}, "
        f"{whose}\nroot {given.root}"
    )
    say("store it where no writer of the store can change it")


def _refuse_secrets(run: str, attempt: str, settings: Settings) -> None:
    """Raises `UserError` if the events of an attempt hold a secret: redacted events would prove nothing."""
    from assay.rollout.exchange.secret_check import SecretCheck
    from assay.store import RunStore

    with RunStore.open(settings.store, run) as opened:
        names = SecretCheck([opened.manifest()], settings).names(opened.trajectory(opened.find(attempt).chain))
    if names:
        raise UserError(
            f"the events of {attempt} hold a secret ({', '.join(names)}), so no receipt with events is written: leave "
            "--events out, or write them all the same with --with-secrets"
        )


@keys.command("new")
def new(
    path: Annotated[Path, typer.Argument(help="File for the private key; the public one gets .pub beside it.")],
    as_json: JsonOption = False,
) -> None:
    """Makes a private key that only you may read, and its public key beside it.

    Examples:

      assay keys new lab.key
    """
    from assay.store import new_key

    public = new_key(path)
    if as_json:
        emit_json({"file": str(path), "public": public})
    else:
        console().print(f"{path}: keep it to yourself\n{path}.pub: {public}")


@keys.command("show")
def show(
    key: Annotated[str, typer.Argument(help="A key file, public or private.")],
    as_json: JsonOption = False,
) -> None:
    """Shows the public key of a key file.

    Examples:

      assay keys show lab.key.pub
    """
    from assay.store import public_key

    public = public_key(key)
    if as_json:
        emit_json({"public": public})
    else:
        console().print(public)
