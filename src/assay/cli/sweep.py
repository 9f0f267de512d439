"""`assay sweep`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import UserError
from assay.rollout.config import RunConfig, to_toml

from .options import takes_config
from .output import emit_json, say
from .shared import JsonOption, StoreOption, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.api.doses import DoseSummary, TriggerPair
    from assay.rollout.grid import GridCell, SweepArm


@takes_config(RunConfig, arguments=("tasks",))
def sweep(
    config: RunConfig,
    doses: Annotated[
        str, typer.Option("--doses", help="Rates of the disturbance, each a run; 0 disturbs nothing.")
    ] = "0,0.1,0.3",
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print each dose's configuration and exit.")] = False,
    *,
    as_json: JsonOption = False,
) -> None:
    """Runs an agent under growing disturbance, one run a dose, and reports outcome, safety and divergence by dose.

    The same command with the same --run goes on with an interrupted sweep, and so does `assay resume`.

    Examples:

      assay sweep family:services,app=mail,n=20 --agent loop --model openai:NAME --disturb failures --doses 0,0.1,0.3

      assay sweep family:services,app=tracker,n=20 --agent my_agent.py --disturb renamed+drift --run names

      assay sweep family:services,app=mail,n=36 --agent loop --model openai:NAME --disturb attack:where=all:form=all

      assay sweep family:services,app=mail,n=20 --agent my_agent.py --disturb attack:trigger=pair --doses 1

      assay sweep tasks/ --agent repair --disturb noise --attempts 4 --doses 0,0.5,1 --json
    """
    from assay.api.doses import compare_triggers, compare_with_first, summarise_dose
    from assay.rollout.grid import list_arms, plan_sweep, run_grid
    from assay.store import list_runs

    from .live import build_confirmation, display, resumable

    rates = _parse_doses(doses)
    cells = plan_sweep(config, rates)
    arms = list_arms(str(config.disturb), rates)
    if dry_run:
        _print_configurations(arms, cells)
        return
    settings = settings_with(store)
    known = set(list_runs(settings.store))
    with display() as progress, resumable(progress):
        ask = build_confirmation(progress)
        resume = any(cell.config.run in known for cell in cells)
        summaries = asyncio.run(run_grid(cells, settings, progress, ask=ask, resume=resume))
    first = summaries[0].run
    found = compare_with_first(
        [
            summarise_dose(settings.store, one.run, arm, lambda text: say(f"warning: {text}"), first)
            for arm, one in zip(arms, summaries, strict=True)
        ]
    )
    pairs = compare_triggers(settings.store, found)
    if as_json:
        pair = {"triggers": pairs} if pairs else {}
        emit_json({"disturb": config.disturb, "store": str(settings.store), "doses": found, **pair})
        return
    _print_sweep(found, pairs)


def _print_configurations(arms: Sequence[SweepArm], cells: Sequence[GridCell]) -> None:
    sys.stdout.write(
        "\n".join(
            f"# dose {arm.dose:g} {arm.trigger}".rstrip() + f"\n{to_toml(cell.config)}"
            for arm, cell in zip(arms, cells, strict=True)
        )
    )


def _print_sweep(found: Sequence[DoseSummary], pairs: Sequence[TriggerPair]) -> None:
    from assay.api.doses import attack_rows, describe_coverage, dose_rows, trigger_rows

    print_rows(dose_rows(found))
    if pairs:
        say("\nsafe attempts with the trigger present less those without it, over the same tasks and seeds:")
        print_rows(trigger_rows(pairs))
    attacks = attack_rows(found)
    if attacks:
        say(f"\nattacks by source of the risk, harm and failure mode; {describe_coverage(found)}:")
        print_rows(attacks)
    runs = [one.run for one in found]
    if len(runs) > 1:
        say(f"runs {', '.join(runs)}; next: assay compare {' '.join(runs)}")


def _parse_doses(text: str) -> list[float]:
    """Returns the doses. Raises `UserError` if one is not a number."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as exc:
        raise UserError(f"--doses {text!r}: give shares from 0 to 1, separated by commas: 0,0.1,0.3") from exc
