"""`assay evolve`: a better configuration of an agent, decided on tasks that the search never saw."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from .options import read_recipe
from .output import emit_json, plain, say
from .shared import JsonOption, StoreOption, settings_with
from .tables import print_rows
from .training import RecipeArgument, SetOption

if TYPE_CHECKING:
    from assay.learning.evolution.evolve import EvaluatedOptions
    from assay.learning.evolution.recipe import EvolveRecipe
    from assay.settings import Settings


def evolve(
    recipe: RecipeArgument,
    changes: SetOption = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Only rank the options by what changing each alone does; decides nothing.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Searches an agent's options or code, and keeps the winner only if it holds on tasks that the search never saw.

    The search compares means on [search] tasks; the gate is a paired test on [gate] tasks, whose error budget it
    spends (`assay skills holdouts`). Repeat the command to continue an interrupted search. Exits with 1 where the
    present configuration stays. With --rank nothing is decided: each value of each option is tried alone in place of
    the present one, and options are ranked by their best gain.

    Examples:

      assay evolve recipes/evolve_search.toml

      assay evolve recipes/evolve_search.toml --set search.method=halving --set name=halved --json

      assay evolve recipes/evolve_search.toml --rank

      assay evolve recipes/evolve_code.toml
    """
    from assay.learning.evolution.evolve import evolve as run
    from assay.learning.evolution.evolve import show_options
    from assay.learning.evolution.recipe import EvolveRecipe

    wanted, settings = read_recipe(recipe, EvolveRecipe, changes or [], {}), settings_with(store)
    if rank:
        _rank(wanted, settings, as_json=as_json)
        return
    found = asyncio.run(run(wanted, settings, say))
    if as_json:
        emit_json(found)
    else:
        ordered = sorted(found.candidates, key=lambda one: (-one.tasks, -one.rate))
        print_rows([_row(one) for one in ordered])
        base, winner = found.claimed
        typer.echo(plain(f"claimed by the search: {base:.3f} to {winner:.3f}"))
        if found.held_out is not None:
            typer.echo(plain(f"on held-out tasks: {found.held_out[0]:.3f} to {found.held_out[1]:.3f}"))
        typer.echo(plain(f"{'accepted' if found.accepted else 'refused'}: {show_options(found.winner)}"))
        for reason in found.reasons:
            typer.echo(plain(f"  {reason}"))
        if found.code is not None:
            typer.echo(plain(f"code: {found.code}"))
        say(f"ledger: {found.ledger}")
    if not found.accepted:
        raise typer.Exit(1)


def _rank(recipe: EvolveRecipe, settings: Settings, *, as_json: bool) -> None:
    from assay.learning.evolution.components import rank_components

    found = asyncio.run(rank_components(recipe, settings, say))
    if as_json:
        emit_json(found)
        return
    rows = [
        {
            "rank": str(number),
            "option": component.option,
            "value": plain(str(one.value)),
            "gain [95%]": f"{one.gain:+.3f}"
            + ("" if one.interval is None else f" [{one.interval.low:+.3f}, {one.interval.high:+.3f}]"),
            "run": one.run,
        }
        for number, component in enumerate(found.components, 1)
        for one in component.values
    ]
    print_rows(rows, empty="no option has another value than the present one")
    typer.echo(plain(f"the present configuration passes {found.base_rate:.3f} ({found.base_run})"))
    value, ends = found.agreement.value, found.agreement.interval
    if value is not None:
        shown = "" if ends is None else f" [{ends.low:.2f}, {ends.high:.2f}]"
        typer.echo(f"two halves of the tasks order the configurations with the rank correlation {value:.2f}{shown}")


def _row(one: EvaluatedOptions) -> dict[str, str]:
    from assay.learning.evolution.evolve import show_options

    return {
        "options": show_options(one.options),
        "tasks": str(one.tasks),
        "passed": f"{one.rate:.3f}",
        "turns": "-" if one.turns is None else f"{one.turns:.1f}",
        **({} if one.unsafe is None else {"unsafe": f"{one.unsafe:.3f}"}),
        "front": "yes" if one.on_front else "-",
        "run": one.run,
    }
