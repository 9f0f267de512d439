"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from assay.errors import UserError
from assay.settings import Settings, store_folder

from .output import say

if TYPE_CHECKING:
    from assay.records import Separation

StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Folder of runs and blobs. [default: .assay, or $ASSAY_STORE]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
RequireOption = Annotated[
    str,
    typer.Option(
        "--require",
        help="Weakest grade of separation at which a pass counts: no-agent-code, separate, same-user, same-process "
        "or unknown.",
    ),
]
TaskCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-task-code",
        help="Also compare attempts with recorded tasks that name Python code, which then runs in this process.",
    ),
]
RunArgument = Annotated[
    str | None, typer.Argument(help="Name of the run; default: the newest one.", show_default=False)
]


def parse_grade(name: str) -> Separation:
    """Returns the named grade of separation. Raises `UserError` for an unknown name."""
    from assay.verdicts import SEPARATIONS

    if name not in SEPARATIONS:
        raise UserError(f"--require {name!r} is not a grade of separation: expected one of {', '.join(SEPARATIONS)}")
    return SEPARATIONS[SEPARATIONS.index(name)]


def settings_with(store: Path | None) -> Settings:
    """Returns the settings of the process, with another store if one is given."""
    settings = Settings.from_environment()
    return settings if store is None else msgspec.structs.replace(settings, store=store_folder(store))


def pick_run(run: str | None, settings: Settings) -> str:
    """Returns the named run, or the newest, and then says its name if there are others. Raises `UserError` for an
    unknown name or an empty store."""
    from assay.store import list_runs, newest_run
    from assay.store.layout import unknown_run

    names = list_runs(settings.store)
    if not names:
        raise UserError(f"no runs in {settings.store}: make one with `assay run`, or name the folder with --store")
    if run is None:
        newest = newest_run(settings.store)
        if len(names) > 1:
            say(f"run {newest}, the newest of {len(names)}")
        return newest
    if run not in names:
        raise UserError(unknown_run(settings.store, run))
    return run


def pick_recorded(run: str | None, key: str, settings: Settings) -> str:
    """Returns the named run, or the newest without `key` in its manifest, by which a command marks the runs that it
    makes of others. Raises as `pick_run`."""
    from assay.store import RunStore, list_runs

    for name in reversed(list_runs(settings.store)) if run is None else ():
        with RunStore.open(settings.store, name) as opened:
            if key not in opened.manifest():
                return name
    return pick_run(run, settings)


def pick_runs(names: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """Returns the named runs, each once, with a grid's runs in place of its name; without names the newest run. Raises
    `UserError` for an unknown name or an empty store."""
    from assay.store import list_runs
    from assay.store.layout import grid_runs

    if not names:
        return (pick_run(None, settings),)
    known, chosen = list_runs(settings.store), list[str]()
    for name in names:
        chosen += (grid_runs(settings.store, name) if name not in known else []) or [pick_run(name, settings)]
    return tuple(dict.fromkeys(chosen))
