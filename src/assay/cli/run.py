"""`assay run` and `assay resume`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from assay.api.summaries import required_separation
from assay.errors import UserError, describe_os_error
from assay.rollout.config import RunConfig, to_toml

from .cluster import NodesOption, PlaceOption, TokenFileOption, read_placement, resumed_placement
from .options import takes_config
from .output import emit_json, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .tables import print_summaries, summarise_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.records import Separation
    from assay.rollout import RunSummary
    from assay.settings import Settings


FailUnderOption = Annotated[
    float | None,
    typer.Option(
        "--fail-under",
        min=0,
        max=1,
        help="Exit with 1 if pass@1 of an agent is below this share; an attempt without a judgement counts as failed.",
    ),
]
JUnitOption = Annotated[
    Path | None, typer.Option("--junit", help="Write the attempts to this file as a JUnit report.", show_default=False)
]


class ResultOptions(NamedTuple):
    """Options for continuous integration: the least pass rate, and the report to write."""

    fail_under: float | None
    junit: Path | None


@takes_config(RunConfig, arguments=("tasks",), several=("agent", "model"))
def run(
    config: RunConfig,
    several: dict[str, tuple[str, ...]],
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resolved configuration and exit.")] = False,
    fail_under: FailUnderOption = None,
    junit: JUnitOption = None,
    *,
    place: PlaceOption = None,
    nodes: NodesOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Runs an agent on tasks, each attempt in a fresh sandbox, judged in a fresh fork of its final state.

    Examples:

      assay run tasks/ --agent oracle

      assay run tasks/ --agent repair --attempts 4 --concurrency 2 --seed 7

      assay run tasks/ --agent loop --model openai:NAME --max-turns 30 --max-cost-usd 0.5

      assay run family:my_family.py,n=20,seed=3 --agent my_agent.py

      assay run tasks/ --agent codex --model openai:NAME --contract safety.toml

      assay run tasks/ --agent loop --model openai:NAME --attempts 8 --allocate uncertainty --early-stop 0.05

      assay run family:services,app=mail,n=20 --agent my_agent.py --disturb failures:rate=0.2+renamed:rate=0.5

      assay run tasks/ --agent loop --agent my_agent.py --model openai:NAME --model anthropic:NAME --run grid

      assay run tasks/ --agent my_agent.py --agent-option depth=3 --config run.toml --dry-run

      assay run tasks/ --agent my_agent.py --fail-under 0.8 --junit report.xml

      assay run tasks/ --agent my_agent.py --nodes 2

      assay run tasks/ --agent my_agent.py --run big --nodes external --place s3://my-bucket/runs --token-file token
    """
    if dry_run:
        sys.stdout.write(to_toml(config, several))
        return

    from assay.rollout import plan_grid, run_grid

    from .live import build_confirmation, display, resumable

    settings = settings_with(store)
    _require_writable(junit)
    cells = plan_grid(config, several["agent"] or (config.agent,), several["model"])
    options = read_placement(place, nodes, token_file, settings)
    with display() as progress, resumable(progress):
        ask = build_confirmation(progress)
        summaries = asyncio.run(run_grid(cells, settings, progress, ask=ask, nodes=options))
    _report(summaries, settings, ResultOptions(fail_under, junit), as_json=as_json)


def resume(
    run: Annotated[str, typer.Argument(help="Name of the run, or of a grid of runs.")],
    store: StoreOption = None,
    fail_under: FailUnderOption = None,
    junit: JUnitOption = None,
    *,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="Replace the run's budget in US dollars.", show_default=False)
    ] = None,
    budget_calls: Annotated[
        int | None, typer.Option("--budget-calls", help="Replace the run's budget in model calls.", show_default=False)
    ] = None,
    place: PlaceOption = None,
    nodes: NodesOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Completes the missing attempts of an interrupted run: nothing is lost, nothing runs twice.

    Examples:

      assay resume 20261121-0800-oracle

      assay resume my-run --store /data/assay

      assay resume my-run --budget-usd 20

      assay resume big --place s3://my-bucket/runs --nodes external --token-file token
    """
    from assay.rollout import read_grid, resume_run, run_grid
    from assay.rollout.cluster.placed_run import resume_placed_run
    from assay.rollout.limits.run_budget import BudgetLimits
    from assay.store import list_runs

    from .live import build_confirmation, display, resumable

    settings = settings_with(store)
    _require_writable(junit)
    given = budget_usd is not None or budget_calls is not None
    budget = BudgetLimits(budget_usd, budget_calls) if given else None
    placement = resumed_placement(run, settings, place, nodes, token_file)
    cells = () if run in list_runs(settings.store) else read_grid(settings.store, run)
    begun = [str(cell.config.run) for cell in cells if cell.config.run in list_runs(settings.store)]
    if begun and placement is None:
        placement = resumed_placement(begun[0], settings, place, nodes, token_file)
    with display() as progress, resumable(progress):
        ask = build_confirmation(progress)
        if cells:
            grid = run_grid(cells, settings, progress, ask=ask, resume=True, budget=budget, nodes=placement)
            summaries = asyncio.run(grid)
        elif placement is not None:
            summaries = (asyncio.run(resume_placed_run(run, settings, progress, placement, budget)),)
        else:
            name = pick_run(run, settings)
            summaries = (asyncio.run(resume_run(name, settings, progress, ask=ask, budget=budget)),)
    _report(summaries, settings, ResultOptions(fail_under, junit), as_json=as_json)


def _report(summaries: Sequence[RunSummary], settings: Settings, options: ResultOptions, *, as_json: bool) -> None:
    """Prints the result. Exits with 3 if every attempt broke, and with 1 if an agent passes too rarely."""
    from assay.rollout.diagnosis import describe_shortfall, diagnose_run
    from assay.store import RunStore

    runs = [summary.run for summary in summaries]
    require = required_separation(settings.store, runs[0])
    found = summarise_runs(settings.store, runs, require=require)
    diagnoses = []
    for run in runs:
        with RunStore.open(settings.store, run) as opened:
            diagnoses.append(diagnose_run(opened.attempts()))
    if options.junit is not None:
        _write_junit(settings, runs, require, options.junit)
    all_broke = diagnoses[0].all_broke if all(one.all_broke is not None for one in diagnoses) else None
    warnings = [warning for one in diagnoses for warning in one.warnings]
    if all_broke is None:
        warnings += [one.all_broke for one in diagnoses if one.all_broke is not None]
    shortfall = None if options.fail_under is None else describe_shortfall(found, options.fail_under)
    if as_json:
        told = {"all_broke": all_broke, "warnings": warnings, "shortfall": shortfall}
        emit_json({"run": runs[0], "runs": runs, "store": str(settings.store), "groups": found, **told})
    else:
        print_summaries(found)
        for stopping in filter(None, (_describe_early_stops(settings.store, run) for run in runs)):
            say(stopping)
    for warning in warnings:
        say(f"warning: {warning}")
    if not as_json:
        say(_next_steps(runs))
    _exit_on_findings(all_broke, shortfall)


def _next_steps(runs: Sequence[str]) -> str:
    if len(runs) == 1:
        return f"run {runs[0]}; next: assay ls {runs[0]}, assay show ATTEMPT --run {runs[0]}"
    compared = f"assay compare {runs[0]} {runs[1]}, assay stats {' '.join(runs)} --table grid"
    return f"runs {', '.join(runs)}; next: {compared}"


def _exit_on_findings(all_broke: str | None, shortfall: str | None) -> None:
    for text, code in ((all_broke, 3), (shortfall, 1)):
        if text is not None:
            say(f"assay: {text}")
            raise typer.Exit(code)


def _require_writable(junit: Path | None) -> None:
    """Creates the report's folder before the run. Raises `UserError` where the report cannot be written."""
    if junit is None:
        return
    try:
        junit.parent.mkdir(parents=True, exist_ok=True)
        with junit.open("ab"):
            pass
    except OSError as exc:
        raise UserError(f"--junit cannot be written: {describe_os_error(exc, junit)}") from exc


def _write_junit(settings: Settings, runs: Sequence[str], require: Separation, path: Path) -> None:
    from assay.rollout.exchange.junit import read_cases, render_junit
    from assay.store import RunStore

    cases = []
    for run in runs:
        with RunStore.open(settings.store, run) as opened:
            cases += read_cases(opened, settings, require)
    document = render_junit(runs[0], cases)
    try:
        path.write_bytes(document)
    except OSError as exc:
        raise UserError(
            f"--junit cannot be written: {describe_os_error(exc, path)}; the run {runs[0]} is stored"
        ) from exc


def _describe_early_stops(store: Path, run: str) -> str | None:
    from assay.rollout.limits.early_stop import stop_report
    from assay.store import RunStore

    with RunStore.open(store, run) as opened:
        config = opened.manifest().get("config")
        if not isinstance(config, dict) or config.get("early_stop") is None:
            return None
        report = stop_report(opened.trajectory(row.chain) for row in opened.attempts() if row.final)
    summary = f"{report.stopped} of {report.watched} watched attempts were stopped early"
    if report.false_stop_rate is None:
        return f"{summary}; no controls, so the false stop rate is unknown"
    low, high = report.interval
    return (
        f"{summary}; of {report.controls} controls that continued, {report.controls_passed} passed: false stops "
        f"{report.false_stop_rate:.1%} (95% {low:.1%} to {high:.1%})"
    )
