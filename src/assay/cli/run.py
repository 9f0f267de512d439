"""`assay run` and `assay resume`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from assay.api.summaries import required_separation
from assay.rollout.config import RunConfig, to_toml

from .options import takes_config
from .output import emit_json, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .tables import print_summaries, summarise_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from assay.rollout import RunSummary
    from assay.settings import Settings


@takes_config(RunConfig, arguments=("tasks",), several=("agent", "model"))
def run(
    config: RunConfig,
    several: dict[str, tuple[str, ...]],
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resolved configuration and exit.")] = False,
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

      assay run tasks/ --agent loop --agent my_agent.py --model openai:NAME --model anthropic:NAME --run grid

      assay run tasks/ --agent my_agent.py --agent-option depth=3 --config run.toml --dry-run
    """
    if dry_run:
        sys.stdout.write(to_toml(config, several))
        return

    from assay.rollout import plan_grid, run_grid

    from .live import build_confirmation, display

    settings = settings_with(store)
    cells = plan_grid(config, several["agent"] or (config.agent,), several["model"])
    with display() as progress:
        summaries = asyncio.run(run_grid(cells, settings, progress, ask=build_confirmation(progress)))
    _report(summaries, settings, as_json=as_json)


def resume(
    run: Annotated[str, typer.Argument(help="Name of the run, or of a grid of runs.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Completes the missing attempts of an interrupted run: nothing is lost, nothing runs twice.

    Examples:

      assay resume 20261121-0800-oracle

      assay resume my-run --store /data/assay
    """
    from assay.rollout import read_grid, resume_run, run_grid
    from assay.store import list_runs

    from .live import build_confirmation, display

    settings = settings_with(store)
    cells = () if run in list_runs(settings.store) else read_grid(settings.store, run)
    with display() as progress:
        ask = build_confirmation(progress)
        if cells:
            summaries = asyncio.run(run_grid(cells, settings, progress, ask=ask, resume=True))
        else:
            summaries = (asyncio.run(resume_run(pick_run(run, settings), settings, progress, ask=ask)),)
    _report(summaries, settings, as_json=as_json)


def _report(summaries: Sequence[RunSummary], settings: Settings, *, as_json: bool) -> None:
    runs = [summary.run for summary in summaries]
    found = summarise_runs(settings.store, runs, require=required_separation(settings.store, runs[0]))
    if as_json:
        emit_json({"run": runs[0], "runs": runs, "store": str(settings.store), "groups": found})
        return
    print_summaries(found)
    for run in runs:
        stopping = _describe_early_stops(settings.store, run)
        if stopping is not None:
            say(stopping)
    if len(runs) == 1:
        say(f"run {runs[0]}; next: assay ls {runs[0]}, assay show ATTEMPT --run {runs[0]}")
        return
    say(f"runs {', '.join(runs)}; next: assay compare {runs[0]} {runs[1]}, assay stats {' '.join(runs)} --table grid")


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
