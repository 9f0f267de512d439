"""Options that several verbs have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

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
    """The named run, else the newest."""
    if run is not None:
        return run
    from assay.store import newest_run

    return newest_run(settings.store)
