"""`assay router`: scores routers on stored steps, before one leads a run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from assay.rollout.rejudge.config import TiersConfig

from .options import takes_config
from .output import console, emit_json, explain_interruption, plain
from .plain_typer import plain_typer
from .saved_tables import SaveOption, save_table
from .shared import JsonOption, RequireOption, StoreOption, parse_grade, pick_recorded, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.analysis.step_routing import RouterScore
    from assay.rollout.rejudge.tier_labels import TierLabels

_HELP = """Scores routers on stored steps: which agent is cheap and still good enough for the next step?

`label` finds out by execution; `score` compares routers with that, and starts no agent.

Examples:

  assay router label --run recorded --config tiers.toml

  assay router score LABELS --route after-error --route mine.py:pick"""
app = plain_typer(help=_HELP, no_args_is_help=True)


@app.command("label")
@takes_config(TiersConfig, arguments=("attempts",))
def label(config: TiersConfig, save: SaveOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Labels recorded steps with the cheapest tier that finishes the task from there.

    The cheapest tier continues from the state before each step; where its tries fail, the next one does. The tries are
    an ordinary run, from which `score` reads the labels.

    Examples:

      assay router label --run recorded --config tiers.toml

      assay router label --tier weak=random-world --cost weak=1 --tier strong=expert --cost strong=20 --json

      assay router label --run recorded --config tiers.toml --save routes
    """
    from assay.rollout.rejudge.tier_labels import TIER_LABEL, label_tiers

    from .live import display

    settings = settings_with(store)
    run = pick_recorded(config.run, TIER_LABEL, settings)
    kept = "Completed tries are stored as a run of their own; repeat the command for all"
    with explain_interruption(kept), display() as progress:
        found = asyncio.run(label_tiers(run, config, settings, progress))
    rows, notes = _label_rows(found, config.tiers), _label_notes(found)
    if save is not None:
        save_table(settings.store, save, "router label", [found.run, found.labels], rows, notes=notes)
    if as_json:
        emit_json(found)
        return
    print_rows(rows)
    for note in notes:
        console().print(plain(note))


def _label_rows(found: TierLabels, agents: Mapping[str, str]) -> list[dict[str, str]]:
    counts = Counter(one.tier for one in found.steps)
    return [
        {
            "tier": "(no tier)" if name is None else name,
            "agent": "-" if name is None else agents[name],
            "cost of a step": "-" if name is None else f"{found.tiers[name]:g}",
            "steps": str(counts[name]),
            "share": f"{counts[name] / len(found.steps):.3f}" if found.steps else "-",
        }
        for name in (*found.tiers, *([None] if None in counts else []))
    ]


def _label_notes(found: TierLabels) -> list[str]:
    why = "have no state that could be rebuilt, and no label"
    untried = [f"{len(found.untried):,} further steps {why}: {found.untried[0]}"] if found.untried else []
    return [*untried, f"{found.tries:,} tries, {found.turns:,} turns; they are the run {found.labels}"]


@app.command("score")
def score(
    labels: Annotated[str, typer.Argument(help="Run that `assay router label` made.")],
    route: Annotated[
        list[str] | None,
        typer.Option(
            "--route",
            help="Router, as the option `route` of a cascade: after-error, or path/to/file.py:function of a "
            "`StepPrefix` that returns a tier's name, True (dearest) or False (cheapest); repeatable.",
        ),
    ] = None,
    require: RequireOption = "unknown",
    allow_task_code: Annotated[
        bool,
        typer.Option(
            "--allow-task-code",
            help="Allow families of tasks to be Python code where today's tasks were labelled; it runs in this "
            "process.",
        ),
    ] = False,
    *,
    save: SaveOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Scores routers on labelled steps, beside each tier at every step and the labels themselves.

    `right`: the cheapest tier that suffices, as a share of steps, and `by task` as the mean over tasks of that share;
    `under`: a cheaper one; `over`: a dearer one. `with cascade` is the cost if each step that was routed too low is
    made again by each dearer tier up to the one that suffices, and `saved` what this saves of the dearest tier at every
    step. Routers read the version of the tasks that was labelled.

    Examples:

      assay router score LABELS --route after-error

      assay router score LABELS --route mine.py:pick --json

      assay router score LABELS --route mine.py:pick --save routes
    """
    from assay.rollout.rejudge.tier_labels import score_routes

    settings = settings_with(store)
    report = score_routes(
        pick_run(labels, settings),
        route or [],
        settings.store,
        parse_grade(require),
        allow_task_code=allow_task_code,
    )
    rows, notes = list(map(_score_row, report.scores)), list[str]()
    if report.unlabelled:
        notes.append(f"{report.unlabelled} further steps, at which no tier suffices, count for no router")
    if report.untried:
        notes.append(f"{report.untried} further steps were not tried, and count for no router")
    if save is not None:
        save_table(settings.store, save, "router score", [report.labels], rows, notes=notes)
    if as_json:
        emit_json(report)
        return
    print_rows(rows)
    for note in notes:
        console().print(note)


def _score_row(one: RouterScore) -> dict[str, str]:
    ends = "" if one.low is None else f" [{one.low:.3f}, {one.high:.3f}]"
    return {
        "router": one.router,
        "steps": str(one.steps),
        "right": f"{one.right:.3f}",
        "by task [95%]": f"{one.right_of_tasks:.3f}{ends}",
        "under": f"{one.under:.3f}",
        "over": f"{one.over:.3f}",
        "cost": f"{one.cost:.2f}",
        "with cascade": f"{one.cascade_cost:.2f}",
        "saved": f"{one.saved:+.3f}",
    }
