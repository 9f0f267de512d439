"""`assay agents`: command-line agents as they come, listed and installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.errors import UserError

from .output import console, emit_json, say
from .plain_typer import plain_typer
from .shared import JsonOption, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.agents.harnesses.install import Installed
    from assay.agents.harnesses.recipe import Recipe

_HELP = """Lists and installs command-line agents.

Examples:

  assay agents

  assay agents install pi codex"""
app = plain_typer(help=_HELP, invoke_without_command=True)


@app.callback()
def list_agents(context: typer.Context, as_json: JsonOption = False) -> None:
    """Lists them."""
    if context.invoked_subcommand is not None:
        return
    from assay.agents.harnesses import recipes
    from assay.agents.harnesses.install import installed_or_none

    cache = settings_with(None).cache
    rows = [_row(recipe, installed_or_none(cache, recipe)) for recipe in recipes()]
    if as_json:
        emit_json({"agents": rows, "cache": str(cache / "agents")})
        return
    print_rows([{name: _cell(value) for name, value in row.items() if name not in {"title", "path"}} for row in rows])


list_agents.__doc__ = _HELP


def _row(recipe: Recipe, installed: Installed | None) -> dict[str, Any]:
    run_by = "command" if recipe.is_library else recipe.name
    if not recipe.dialects:
        run_by = "the others, with --agent-option browser=playwright-mcp"
    return {
        "name": recipe.name,
        "title": recipe.title,
        "version": recipe.version,
        "installed": installed is not None,
        "dialects": list(recipe.dialects),
        "side_calls": recipe.side_calls,
        "run_by": run_by,
        "path": installed.path if installed is not None else None,
    }


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


@app.command()
def install(
    names: Annotated[list[str] | None, typer.Argument(help="Names of agents to install (see `assay agents`).")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Install all listed agents.")] = False,
    python: Annotated[str | None, typer.Option(help="Python interpreter for agents that are Python packages.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Installs pinned versions into the cache, with their own Node and Python; runs no install script.

    It needs the registries of npm and pip once; afterwards nothing does. What is there already is left alone.

    Examples:

      assay agents install claude-code codex pi

      assay agents install --all
    """
    from assay.agents.harnesses import find_recipe, recipes
    from assay.agents.harnesses.install import install as install_recipe

    if bool(names) == everything:
        raise UserError("name the agents to install, or use --all (`assay agents` lists them)")
    wanted = recipes() if everything else [find_recipe(name) for name in names or ()]
    cache = settings_with(None).cache
    done = [install_recipe(cache, recipe, say, python=python) for recipe in wanted]
    if as_json:
        emit_json({"installed": done})
        return
    for found in done:
        console().print(f"{found.name} {found.version} in {found.path}")
