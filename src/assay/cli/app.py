"""The application: every verb, in the order in which a newcomer meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from assay import __version__

from . import demo, doctor, init, inspect_run, lint, plugins, query, run, setup, stats, store, synth

__all__ = ["build_app"]

_HELP = """Turns any agent run into an environment-verified trajectory.

Start here: assay demo. Then: assay synth repository, assay run, assay stats, assay show.
Results go to stdout, everything else to stderr; most verbs take --json.
Exit codes: 0 done, 2 bad input, 3 something outside Assay failed, 130 interrupted."""

_VERBS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("demo", demo.demo),
    ("setup", setup.setup),
    ("doctor", doctor.doctor),
    ("run", run.run),
    ("resume", run.resume),
    ("stats", stats.stats),
    ("ls", inspect_run.ls),
    ("show", inspect_run.show),
    ("query", query.query),
    ("lint", lint.lint),
    ("seal", store.seal),
    ("verify", store.verify),
    ("gc", store.gc),
    ("plugins", plugins.plugins),
)


def build_app() -> typer.Typer:
    """The Typer application."""
    app = typer.Typer(
        help=_HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    app.callback()(_root)
    for name, function in _VERBS:
        app.command(name)(function)
    app.add_typer(init.app, name="init")
    app.add_typer(synth.app, name="synth")
    return app


def _version(value: bool) -> None:
    if value:
        typer.echo(f"assay {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version


_root.__doc__ = _HELP
