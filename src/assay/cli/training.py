"""`assay train` and `assay improve`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import BudgetExceededError

from .cluster import NO_PLACEMENT, Placement, takes_placement
from .options import read_recipe
from .output import emit_json, plain, quantity, say
from .shared import JsonOption, StoreOption, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.learning.train import TrainReport
    from assay.learning.trainer.improve_report import ImproveReport

RecipeArgument = Annotated[Path, typer.Argument(help="The recipe, a TOML file.", show_default=False)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a field of the recipe, as table.field=VALUE; repeatable."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Override the recipe's seed.")]


def train(
    recipe: RecipeArgument,
    changes: SetOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trains a small model on recorded attempts: supervised, by preference (DPO), or by the policy gradient.

    After an interruption, repeat the command to resume from the last checkpoint. docs/reference/recipes.md lists the
    fields of a recipe. Needs assay[train].

    Examples:

      assay train my-recipe.toml

      assay train my-recipe.toml --set sft.steps=200 --set keep=card
    """
    from assay.learning.train import train as run
    from assay.learning.trainer.recipe import ImproveRecipe, TrainRecipe

    others = {"assay improve": ImproveRecipe}
    report = run(read_recipe(recipe, TrainRecipe, changes or [], others), settings_with(store), say)
    if as_json:
        emit_json(report)
    else:
        _print_trained(report)


@takes_placement
def improve(
    recipe: RecipeArgument,
    seed: SeedOption = None,
    changes: SetOption = None,
    placement: Placement = NO_PLACEMENT,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Improves an agent with verified attempts: demonstrations, attempts, verification, training, evaluation, gate.

    Every attempt is an ordinary run in the store. With --nodes, nodes make the attempts of steps and evaluations; the
    demonstrations and the training stay here. After an interruption, repeat the command to resume. Exits with 1 if the
    gate rejects the model. See docs/how-to/improve-an-agent.md and docs/reference/recipes.md. Needs assay[train].

    Examples:

      assay improve recipes/grid.toml

      assay improve recipes/grid.toml --seed 3 --set steps=30

      assay improve recipes/grid.toml --nodes ray:auto --place s3://my-bucket/runs
    """
    from assay.learning.improve import improve as run
    from assay.learning.trainer.recipe import ImproveRecipe, TrainRecipe

    others = {"assay train": TrainRecipe}
    given = [*(changes or []), *([] if seed is None else [f"seed={seed}"])]
    settings = settings_with(store)
    where = placement.read(settings)
    try:
        report = asyncio.run(run(read_recipe(recipe, ImproveRecipe, given, others), settings, say, where))
    except BudgetExceededError as exc:
        say(f"{exc}: completed attempts are kept; repeat the command with a larger budget_calls to go on")
        raise typer.Exit(3) from None
    if as_json:
        emit_json(report)
    else:
        _print_improved(report)
    if not report.accepted:
        raise typer.Exit(1)


def _print_trained(report: TrainReport) -> None:
    first, last = report.first.get("loss"), report.last.get("loss")
    fell = "" if first is None or last is None else f", loss {first:.4f} to {last:.4f}"
    typer.echo(
        plain(
            f"{report.method}: {quantity(report.steps, 'step')} on {quantity(report.rows, 'row')} of "
            f"{quantity(report.attempts, 'attempt')}{fell}"
        )
    )
    typer.echo(plain(f"model: local:{report.model} ({report.version})"))


def _print_improved(report: ImproveReport) -> None:
    rows = [
        {
            "after step": str(p.step),
            "held-out success": _share(p.success),
            "95 % interval": f"{_share(p.low)} to {_share(p.high)}",
            "run": p.run,
        }
        for p in report.curve
    ]
    print_rows(rows, empty="nothing was evaluated")
    change = report.difference
    low, high = (_share(end) for end in (change.low, change.high))
    typer.echo(plain(f"better by {_share(change.value)} [{low}, {high}], task by task"))
    typer.echo(plain(f"{'accepted' if report.accepted else 'not accepted'}: {report.why}"))
    typer.echo(plain(f"model: local:{report.model} ({report.version})"))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
