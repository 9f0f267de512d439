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
from .plain_typer import plain_typer
from .plain_values import take_plain_flag, take_plain_values

_HELP = """Turns any agent run into an environment-verified trajectory.

Start here: assay demo. Then: assay synth repository, assay run, assay stats, assay show.
Results go to stdout, everything else to stderr; most verbs take --json and --out FILE.
Exit codes: 0 done, 1 findings of lint, verify or audit, 2 bad input, 3 a failure outside Assay,
130 interrupted (143 by SIGTERM, 129 by SIGHUP)."""


class Verb(NamedTuple):
    """A command: its function (or command group named `app`) and a one-line description."""

    name: str
    target: str
    """`module:attribute` below `assay.cli`."""
    help: str


VERBS = (
    Verb("demo", "demo:demo", "Runs the whole pipeline in 20 to 30 minutes, offline after set-up."),
    Verb("setup", "setup:setup", "Prepares the sandbox's tool layers."),
    Verb("doctor", "doctor:doctor", "Tests every sandbox and reports which ones work here."),
    Verb("admit", "admit:admit", "Proves verifiers sound before their verdicts are used."),
    Verb("run", "run:run", "Runs an agent on tasks and verifies the final states."),
    Verb("sweep", "sweep:sweep", "Runs an agent under growing disturbance: outcome, safety by dose."),
    Verb("resume", "run:resume", "Completes the missing attempts of an interrupted run."),
    Verb("node", "cluster:node", "Runs attempts of a run on another machine."),
    Verb("status", "cluster:status", "Shows the state of a run on many machines."),
    Verb("gateway", "gateway:gateway", "Runs the recording gateway alone, in front of any model."),
    Verb("record", "record:record", "Records any command in this folder, without a task."),
    Verb("serve", "serve:serve", "Serves verified, credited rollouts to trainers over HTTP."),
    Verb("import", "importing:import_", "Imports runs from other tools' formats."),
    Verb("export", "importing:export", "Exports a run to another format and lists the losses."),
    Verb("formats", "importing:formats", "Lists the import and export formats."),
    Verb("stats", "stats:stats", "Sums up runs: pass@k and pass^k, with intervals."),
    Verb("compare", "compare:compare", "Compares configurations task by task, with significance."),
    Verb("gate", "gate:gate", "Decides whether a candidate may replace the released version."),
    Verb("releases", "gate:releases", "Lists release candidates and the gate's decisions."),
    Verb("power", "power:power", "Computes the statistical power of an experiment plan."),
    Verb("ls", "listing:ls", "Lists the attempts of a run, or the runs of a store."),
    Verb("view", "view:view", "Shows runs as web pages, or exports the pages to a folder."),
    Verb("show", "inspect_run:show", "Shows one attempt: steps, changes, verdict, evidence."),
    Verb("audit", "audit:audit", "Judges stored attempts on integrity, process and safety."),
    Verb("alarm", "alarm:alarm", "Says at which step an error was made, also while a run is written."),
    Verb("contract", "contract:app", "Validates safety contracts."),
    Verb("curate", "curate:curate", "Selects attempts for training, with a reason for each."),
    Verb("train", "training:train", "Trains a small model on stored attempts."),
    Verb("improve", "training:improve", "Improves an agent: attempts, verification, training, gate."),
    Verb("skills", "skills:app", "Distils, tries and releases skills, with their evidence."),
    Verb("evolve", "evolve:evolve", "Searches an agent's options, and gates the winner on other tasks."),
    Verb("learn-policy", "learn_policy:learn_policy", "Learns which act comes next from verified passes, for search."),
    Verb("router", "router:app", "Scores routers on stored steps, labelled by execution."),
    Verb("workflow", "workflow:app", "Checks workflow files, and measures how far attempts follow them."),
    Verb("learn-value", "learn_value:learn_value", "Learns the value of states from verified attempts, for search."),
    Verb("memory", "memory:app", "Keeps what verified attempts showed, for later attempts."),
    Verb("query", "query:query", "Queries all runs of the store with SQL."),
    Verb("lint", "lint:lint", "Checks task folders and suggests fixes."),
    Verb("seal", "store:seal", "Converts a finished run to Parquet tables."),
    Verb("verify", "verify:verify", "Recomputes every digest of a stored run, and re-judges it."),
    Verb("receipt", "receipt:receipt", "Writes a receipt that reveals a later rewrite of a run."),
    Verb("keys", "receipt:keys", "Creates and shows the keys that sign receipts."),
    Verb("marginals", "marginals:marginals", "Measures what each act or actor of a team contributed."),
    Verb("replay", "replay:replay", "Executes recorded actions again and reports divergences."),
    Verb("gc", "store:gc", "Deletes unreferenced blobs."),
    Verb("store", "erase:app", "Copies runs to and from object storage; erases stored bytes."),
    Verb("agents", "agents:app", "Lists and installs command-line agents: Claude Code, Codex, ..."),
    Verb("plugins", "plugins:plugins", "Lists installed plugins and their origin."),
    Verb("check", "check:app", "Tests whether an environment meets its contract."),
    Verb("init", "init:app", "Writes a scaffold that passes as generated."),
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

    def get_help_option(self, ctx: Any) -> Any:
        return take_plain_flag(super().get_help_option(ctx))

    def format_commands(self, _: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb.name, verb.help) for verb in VERBS])


def _make_command(verb: Verb) -> Any:
    from importlib import import_module

    from .out_file import takes_out

    module, _, attribute = verb.target.partition(":")
    found = getattr(import_module(f"{__package__}.{module}"), attribute)
    if isinstance(found, typer.Typer):
        for registered in found.registered_commands:
            if registered.callback is not None:
                registered.callback = takes_out(registered.callback)
        command = typer.main.get_command(found)
        for nested in (command, *getattr(command, "commands", {}).values()):
            take_plain_values(nested, nested.callback)
    else:
        single = plain_typer()
        function = takes_out(found)
        single.command(verb.name)(function)
        command = typer.main.get_command(single)
        take_plain_values(command, function)
    command.name = verb.name
    return command


def build_app() -> typer.Typer:
    """Returns the Typer application."""
    app = plain_typer(
        cls=_Group,
        help=_HELP,
        no_args_is_help=True,
    )
    app.callback()(_root)
    return app


def _version(value: bool) -> None:
    if value:
        typer.echo(f"assay {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version


_root.__doc__ = _HELP
