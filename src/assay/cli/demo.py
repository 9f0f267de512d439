"""`assay demo`: the main job, end to end."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from assay.errors import UserError
from assay.records import digest_record

from .output import console, emit_json, quantity, say
from .shared import JsonOption, StoreOption, settings_with
from .tables import print_summaries, summarise_runs

if TYPE_CHECKING:
    from assay.settings import Settings
    from assay.store import AttemptRow
    from assay.synthesis import SynthesisReport

FILE_CALLS = 60_000
"""Limit of function calls in a test file: the demo runs its tests several thousand times."""
SEPARATION_MUTANTS = 8
"""Mutants for validating each separation plan; fewer than `assay synth` uses, to save time."""
BUDGET = 24
"""Evaluations for each attempt of the repair policy."""


class _Demo(NamedTuple):
    settings: Settings
    tasks: Path
    task_count: int
    seed: int
    concurrency: int


def demo(
    count: Annotated[int, typer.Option("--count", min=1, help="How many tasks to make.")] = 24,
    seed: Annotated[int, typer.Option("--seed", help="One seed gives the same tasks and the same verdicts.")] = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Sandboxes at work at once.")] = 2,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Makes tasks from a real library, runs three agents on them, shows their attempts, and detects a forged reward.

    Offline after `assay setup`; 20 to 30 minutes on two cores.

    Examples:

      assay demo

      assay demo --count 6 --seed 1 --store /tmp/try
    """
    start_s = time.monotonic()
    settings = settings_with(store)
    options = _Demo(settings, settings.store / f"demo-tasks-{seed}-{count}", count, seed, concurrency)
    out = console()
    report = asyncio.run(_make(options))
    say(
        f"made {quantity(len(report.tasks), 'task')} from {report.source} "
        f"({report.tests} tests, {report.functions} functions)"
    )
    runs = [_run(options, "oracle", 1), _run(options, "null", 1), _run(options, "repair", 4)]
    forged = _run(options, "late-writer", 1)
    groups = summarise_runs(settings.store, runs)
    if as_json:
        emit_json({"tasks": str(options.tasks), "runs": [*runs, forged], "groups": groups, "gates": report.table})
        return
    print_summaries(groups)
    out.print(f"\ntasks {_task_digest(report)}, verdicts {_verdict_digest(settings, runs)}: one seed, the same again")
    _show_two(settings, runs[2])
    _show_forgery(settings, forged)
    out.print(f"\n{time.monotonic() - start_s:.0f} s in all. What to type next:")
    out.print(f"  assay stats {runs[2]} --k 2 --k 4\n  assay ls {runs[2]}\n  assay show ATTEMPT --run {runs[2]} --full")
    out.print('  assay query "select agent, outcome, count(*) as n from trajectories where final group by all"')
    out.print(f"  assay view {runs[2]}\n  assay verify {runs[2]}")
    out.print(f"  assay run {options.tasks} --agent loop --model openai:NAME --attempts 4")


async def _make(options: _Demo) -> SynthesisReport:
    from assay.synthesis import SynthesisConfig, synthesise

    from .sandboxed_synthesis import DEMO_SOURCE, make_tasks

    if importlib.util.find_spec(DEMO_SOURCE) is None:
        raise UserError(
            f"the demo makes its tasks from {DEMO_SOURCE}, which is not installed: pip install 'assay[demo]'"
        )
    say(f"making {quantity(options.task_count, 'task')} from {DEMO_SOURCE} in {options.tasks}")
    config = SynthesisConfig(
        source=DEMO_SOURCE,
        out=str(options.tasks),
        count=options.task_count,
        seed=options.seed,
        concurrency=options.concurrency,
        kinds=("operator", "combination", "feature"),
        file_calls=FILE_CALLS,
        separation_mutants=SEPARATION_MUTANTS,
    )
    report, _ = await make_tasks(config, synthesise)
    return report


def _run(options: _Demo, agent: str, attempts: int) -> str:
    """Runs one agent on the demo's tasks. The forger gets one task, judged by the task's own test script."""
    from assay.rollout import RunConfig, start_run
    from assay.tasks import load_tasks

    from .live import display

    config = RunConfig(
        tasks=(str(options.tasks),),
        agent=agent,
        agent_options={"budget": BUDGET} if agent == "repair" else {},
        attempts=attempts,
        concurrency=options.concurrency,
        seed=options.seed,
    )
    tasks = load_tasks([options.tasks])
    if agent == "late-writer":
        first = tasks[0]
        import msgspec

        scripted = msgspec.structs.replace(first.task, checks=(first.steps[0].check,))
        tasks = (first._replace(task=scripted),)
    say(f"{agent}: {quantity(len(tasks), 'task')} x {attempts}")
    with display() as progress:
        return asyncio.run(start_run(config, options.settings, progress, tasks=tasks)).run


def _rows(settings: Settings, run: str) -> list[AttemptRow]:
    from assay.store import RunStore

    with RunStore.open(settings.store, run) as store:
        return [row for row in store.attempts() if row.final]


def _task_digest(report: SynthesisReport) -> str:
    return digest_record(sorted(task.digest for task in report.tasks))[:19]


def _verdict_digest(settings: Settings, runs: list[str]) -> str:
    # Without scores: how many tests of a broken program fail may hang on the order of a set.
    found = [(r.agent, r.attempt, r.outcome) for run in runs for r in _rows(settings, run)]
    return digest_record(sorted(found))[:19]


def _show_two(settings: Settings, run: str) -> None:
    from assay.store import RunStore

    from .inspect_run import show_trajectory

    rows = _rows(settings, run)
    with RunStore.open(settings.store, run) as store:
        for title, outcome in (("solved", "pass"), ("failed", "fail")):
            row = next((r for r in rows if r.outcome == outcome), None)
            if row is not None:
                console().print(f"\n--- one {title} attempt ---")
                show_trajectory(store.trajectory(row.chain), store, output_chars=400)


def _show_forgery(settings: Settings, run: str) -> None:
    from assay.store import RunStore

    from .inspect_run import show_trajectory

    row = _rows(settings, run)[0]
    with RunStore.open(settings.store, run) as store:
        trajectory = store.trajectory(row.chain)
        console().print("\n--- a forged attempt: a background process keeps writing reward 1 ---")
        show_trajectory(trajectory, store, output_chars=200)
    left = next((e for e in trajectory.evidence if e.kind == "processes"), None)
    count = left.data["count"] if left else 0
    caught = "CAUGHT" if row.outcome != "pass" else "NOT CAUGHT"
    console().print(f"{caught}: {count} processes were left running and were killed; the outcome is {row.outcome}")
