"""Options that several verbs have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from assay.errors import UserError
from assay.settings import Settings

__all__ = ["JsonOption", "RunArgument", "StoreOption", "pick_run", "settings_with"]

StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Folder of runs and blobs. [default: .assay, or $ASSAY_STORE]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
RunArgument = Annotated[
    str | None, typer.Argument(help="Name of the run; default: the newest one.", show_default=False)
]


def settings_with(store: Path | None) -> Settings:
    """The settings of the process, with another store where one is named."""
    settings = Settings.from_environment()
    return settings if store is None else msgspec.structs.replace(settings, store=store)


def pick_run(run: str | None, settings: Settings) -> str:
    """The named run, else the newest. Raises `UserError` where there is none of that name, or none at all."""
    from assay.store import list_runs, newest_run

    names = list_runs(settings.store)
    if not names:
        message = f"no runs in {settings.store}: make one with `assay run`, or name the folder with --store"
        raise UserError(message)
    if run is None:
        return newest_run(settings.store)
    if run not in names:
        import difflib

        near = difflib.get_close_matches(run, names, n=3) or names[-3:]
        message = f"no run is called {run!r} in {settings.store}; there are {', '.join(near)} (`assay ls --runs`)"
        raise UserError(message)
    return run
