"""`assay sweep`."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from assay.errors import UserError
from assay.rollout.config import RunConfig, to_toml

from .options import takes_config
from .output import emit_json, say
from .shared import JsonOption, StoreOption, settings_with
from .tables import print_rows


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

      assay sweep family:services,app=mail,n=20 --agent loop --model openai:NAME --disturb attack:form=any --doses 0,1

      assay sweep tasks/ --agent repair --disturb noise --attempts 4 --doses 0,0.5,1 --json
    """
    from assay.api.doses import attack_rows, describe_coverage, dose_rows, summarise_dose
    from assay.rollout.grid import plan_sweep, run_grid
    from assay.store import list_runs

    from .live import build_confirmation, display, resumable

    rates = _parse_doses(doses)
    cells = plan_sweep(config, rates)
    if dry_run:
        sys.stdout.write(
            "\n".join(f"# dose {dose:g}\n{to_toml(c.config)}" for dose, c in zip(rates, cells, strict=True))
        )
        return
    settings = settings_with(store)
    known = set(list_runs(settings.store))
    with display() as progress, resumable(progress):
        ask = build_confirmation(progress)
        resume = any(cell.config.run in known for cell in cells)
        summaries = asyncio.run(run_grid(cells, settings, progress, ask=ask, resume=resume))
    found = [
        summarise_dose(settings.store, one.run, dose, lambda text: say(f"warning: {text}"), summaries[0].run)
        for dose, one in zip(rates, summaries, strict=True)
    ]
    if as_json:
        emit_json({"disturb": config.disturb, "store": str(settings.store), "doses": found})
        return
    print_rows(dose_rows(found))
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
