"""`assay synth rewrite`, `twins` and `augment`: other instructions, other acts and other plans of tasks of services."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assay.synthesis.services.variants_config import AugmentConfig, RewriteConfig, TwinsConfig

from .options import takes_config
from .output import console, emit_json, quantity, say
from .shared import JsonOption, StoreOption, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.records import Task
    from assay.settings import Settings
    from assay.synthesis.services.rewriting import RewriteReport, Rewrites

MOST_SHOWN = 20
LONGEST_TEXT = 160


@takes_config(RewriteConfig, arguments=("tasks",))
def rewrite(config: RewriteConfig, store: StoreOption = None, *, as_json: JsonOption = False) -> None:
    """Lets a model say instructions of services in other words; a rewrite is kept only if it gives the plan back.

    All values of the plan must be in their requests and no other value, act, negation or condition anywhere; with
    --follower, an agent must reach the goal with it as well. Rejected rewrites are counted and shown with their reason.

    Examples:

      assay synth rewrite family:services,app=shop,level=implicit,n=20 --model openai:NAME --out rewritten.jsonl

      assay synth rewrite family:services,app=mail,level=explicit,n=20 --model scripted:replies.yaml --out mail.jsonl
    """
    from assay.synthesis.services.written import write_tasks

    settings = settings_with(store)
    found = asyncio.run(_rewrite(config, settings))
    write_tasks(Path(config.out), found.tasks)
    if as_json:
        emit_json({**msgspec.to_builtins(found.report), "out": config.out})
        return
    _print_rewrites(found.report)
    _say_next(config.out, found.tasks)


async def _rewrite(config: RewriteConfig, settings: Settings) -> Rewrites:
    from assay.rollout.attempt.models import open_model
    from assay.synthesis.services.rewriting import rewrite_tasks, without_unreached
    from assay.tasks import find_tasks

    tasks = [one.task for one in find_tasks(config.tasks)]
    backend = open_model(config.model, settings)
    try:
        found = await rewrite_tasks(tasks, backend, config)
    finally:
        await backend.close()
    if config.follower is None or not found.tasks:
        return found
    return without_unreached(found, await _follow(config, settings, found.tasks), config.attempts)


async def _follow(config: RewriteConfig, settings: Settings, tasks: tuple[Task, ...]) -> Counter[str]:
    """Returns how often a follower passed, by task."""
    from assay.rollout import RunConfig, Tally, start_run
    from assay.store import RunStore
    from assay.tasks import LoadedTask

    run = RunConfig(
        tasks=("rewritten",), agent=str(config.follower), model=config.follower_model, attempts=config.attempts
    )
    done = await start_run(run, settings, Tally(), tasks=[LoadedTask(task, None) for task in tasks])
    say(f"run {done.run}: {quantity(config.attempts, 'attempt')} of {config.follower} at each rewrite")
    with RunStore.open(done.store, done.run) as store:
        return Counter(row.task for row in store.attempts() if row.outcome == "pass")


def _print_rewrites(report: RewriteReport) -> None:
    counted = Counter(one.reason for one in report.rejected)
    console().print(
        f"{quantity(report.asked, 'rewrite')} asked for: {report.kept} kept, {counted.total()} rejected; "
        f"{quantity(len(report.unsuitable), 'task')} that cannot be rewritten"
    )
    rejected = [
        {"task": one.task, "reason": _cut(one.reason), "text": _cut(one.text or "-")}
        for one in (*report.rejected, *report.unsuitable)
    ]
    if rejected:
        print_rows(rejected[:MOST_SHOWN])
    if len(rejected) > MOST_SHOWN:
        console().print(f"... and {len(rejected) - MOST_SHOWN} more (--json shows all)")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 3]}..."


@takes_config(TwinsConfig, arguments=("tasks",))
def twins(config: TwinsConfig, *, as_json: JsonOption = False) -> None:
    """Pairs tasks of services with twins in the same world and wording that ask for one other slot or act.

    `assay stats --table pairs` says how often the acts of an agent changed with the instruction.

    Examples:

      assay synth twins family:services,app=shop,level=implicit,n=20 --out pairs.jsonl
    """
    from assay.synthesis.services.twins import pair_tasks
    from assay.synthesis.services.written import write_tasks
    from assay.tasks import find_tasks

    made, report = pair_tasks([one.task for one in find_tasks(config.tasks)], config.seed)
    write_tasks(Path(config.out), made)
    if as_json:
        emit_json({**msgspec.to_builtins(report), "out": config.out})
        return
    console().print(f"{quantity(report.pairs, 'pair')} of {quantity(report.tried, 'change')} that were tried")
    print_rows([{"changed": part, "pairs": str(count)} for part, count in sorted(report.changed.items())])
    for reason, count in report.without.items():
        console().print(f"{quantity(count, 'task')} without a twin: {reason}")
    _say_next(config.out, made)


@takes_config(AugmentConfig, arguments=("tasks",))
def augment(config: AugmentConfig, *, as_json: JsonOption = False) -> None:
    """Makes other plans of tasks of services: with other names, and with independent writes exchanged.

    A variant is kept where it replays to the same state. Run the kept ones with --agent oracle, and they are verified
    attempts, of which `assay train` makes rows.

    Examples:

      assay synth augment family:services,app=shop,n=20 --out plans.jsonl

      assay synth augment family:services,app=mail,n=20 --names 4 --rate 1 --orders 0 --out names.jsonl
    """
    from assay.synthesis.services.augmenting import augment_tasks
    from assay.synthesis.services.written import write_tasks
    from assay.tasks import find_tasks

    made, counts = augment_tasks([one.task for one in find_tasks(config.tasks)], config)
    write_tasks(Path(config.out), made)
    if as_json:
        emit_json({"variants": counts, "kept": len(made), "out": config.out})
        return
    print_rows(
        [
            {
                "variant": one.kind,
                "tried": str(one.tried),
                "kept": str(one.kept),
                "dropped": "; ".join(f"{number}: {reason}" for reason, number in one.dropped.items()) or "-",
            }
            for one in counts
        ]
    )
    _say_next(config.out, made)


def _say_next(out: str, tasks: tuple[Task, ...]) -> None:
    if tasks:
        say(f"next: assay run family:written,path={out},n={len(tasks)} --agent oracle")
