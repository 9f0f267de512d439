"""The application: every verb, in tutorial order.

A verb's module is imported at its first use, which keeps `assay --help` fast.
"""

from __future__ import annotations

from collections import UserDict
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from assay import __version__

from .output import exit_on_errors

__all__ = ["VERBS", "Verb", "build_app"]

_HELP = """Turns any agent run into an environment-verified trajectory.

Start here: assay demo. Then: assay synth repository, assay run, assay stats, assay show.
Results go to stdout, everything else to stderr; most verbs take --json.
Exit codes: 0 done, 1 lint, verify or audit found something, 2 bad input, 3 something outside Assay failed,
130 interrupted."""


class Verb(NamedTuple):
    """A command: its function (or command group named `app`) and a one-line description."""

    name: str
    target: str
    """`module:attribute` below `assay.cli`."""
    help: str


VERBS = (
    Verb("demo", "demo:demo", "Shows the whole in about seven minutes, offline after set-up."),
    Verb("setup", "setup:setup", "Makes the sandbox's tool layers ready."),
    Verb("doctor", "doctor:doctor", "Tries every sandbox and says which works here, and why."),
    Verb("admit", "admit:admit", "Proves verifiers sound before their verdicts are used."),
    Verb("run", "run:run", "Runs an agent on tasks and judges what it left."),
    Verb("resume", "run:resume", "Finishes exactly what is missing of a run that was cut."),
    Verb("gateway", "gateway:gateway", "Records agents that something else starts, in front of any model."),
    Verb("record", "record:record", "Records any command in this folder, with no task at all."),
    Verb("serve", "serve:serve", "Serves verified, credited rollouts to trainers over HTTP."),
    Verb("import", "importing:import_", "Reads other people's runs into the store."),
    Verb("export", "importing:export", "Writes a run in another format, and lists what that cannot hold."),
    Verb("formats", "importing:formats", "Lists the formats that are read and written."),
    Verb("stats", "stats:stats", "Sums up runs: pass@k and pass^k, with intervals."),
    Verb("compare", "compare:compare", "Compares configurations task by task: gained, lost, chance."),
    Verb("gate", "gate:gate", "Decides whether a candidate may replace what is released."),
    Verb("power", "power:power", "Says what a plan can show before it is paid for."),
    Verb("ls", "inspect_run:ls", "Lists the attempts of a run, or the runs of a store."),
    Verb("view", "view:view", "Shows runs as pages in a browser, or writes them to a folder."),
    Verb("show", "inspect_run:show", "Shows one attempt: steps, changes, verdict, evidence."),
    Verb("audit", "audit:audit", "Judges stored attempts on integrity, process and safety."),
    Verb("contract", "contract:app", "Reads safety contracts and says what is wrong with them."),
    Verb("curate", "curate:curate", "Selects attempts to learn from, and says why each is in or out."),
    Verb("train", "training:train", "Trains a small model on attempts that are in the store."),
    Verb("improve", "training:improve", "Makes an agent better: tries, verifies, trains, and gates."),
    Verb("query", "query:query", "Asks all runs of the store in SQL."),
    Verb("lint", "lint:lint", "Checks task folders and says what to do about them."),
    Verb("seal", "store:seal", "Turns a finished run into Parquet tables."),
    Verb("verify", "verify:verify", "Recomputes every digest of a stored run, and judges it again."),
    Verb("receipt", "receipt:receipt", "Writes what shows a rewrite of a run, to be kept elsewhere."),
    Verb("keys", "receipt:keys", "Makes and shows the keys that sign receipts."),
    Verb("replay", "replay:replay", "Executes recorded actions again and says where they differ."),
    Verb("gc", "store:gc", "Drops blobs that no run refers to."),
    Verb("agents", "agents:app", "Lists and installs command-line agents: Claude Code, Codex, ..."),
    Verb("plugins", "plugins:plugins", "Lists what is plugged in, and from where."),
    Verb("check", "check:app", "Tries whether an environment keeps its contract."),
    Verb("init", "init:app", "Writes a scaffold that runs green as written."),
    Verb("synth", "synth:app", "Makes tasks from real code."),
)


class _Commands(UserDict[str, Any]):
    """Maps names to commands; imports a command's module at first access."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, Verb):
            found = self[name] = _make_command(found)
        return found


class _Group(TyperGroup):
    """A group whose help lists the table.

    It reports errors before Typer sees them, which would end an interruption and a closed pipe without a word.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands((verb.name, verb) for verb in VERBS)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with exit_on_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with exit_on_errors():
            return super().invoke(ctx)

    def format_commands(self, _: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb.name, verb.help) for verb in VERBS])


def _make_command(verb: Verb) -> Any:
    from importlib import import_module

    module, _, attribute = verb.target.partition(":")
    found = getattr(import_module(f"{__package__}.{module}"), attribute)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(verb.name)(found)
        command = typer.main.get_command(single)
    command.name = verb.name
    return command


def build_app() -> typer.Typer:
    """Returns the Typer application."""
    app = typer.Typer(
        cls=_Group,
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
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
