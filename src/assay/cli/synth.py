"""`assay synth`: makes tasks."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from assay.synthesis.call_tasks_config import ProgramTasksConfig, QuestionTasksConfig
from assay.synthesis.config import SynthesisConfig
from assay.synthesis.services.set_config import ServiceSetConfig

from .cluster import NO_PLACEMENT, Placement, takes_placement
from .options import takes_config
from .output import console, emit_json, quantity, say
from .plain_typer import plain_typer
from .shared import JsonOption
from .site_synthesis import site, walks
from .tables import print_rows
from .task_variants import augment, rewrite, twins

if TYPE_CHECKING:
    from assay.synthesis.cost import SynthesisCost
    from assay.synthesis.report import GateRow, ReasonCount, SynthesisReport

_HELP = """Makes tasks.

Examples:

  assay synth repository networkx --out tasks/ --count 24

  assay synth programs ./boltons-26.2.0.tar.gz --language node --out tasks/

  assay synth questions ./boltons-26.2.0.tar.gz --out tasks/

  assay synth walks shop --count 20

  assay synth site my-run --out site.json

  assay synth services shop mail --out set/ --count 40

  assay synth rewrite family:services,app=shop,level=implicit,n=20 --model openai:NAME --out rewritten.jsonl"""
MOST_REASONS, LONGEST_REASON = 20, 120
app = plain_typer(help=_HELP, no_args_is_help=True)


@app.callback()
def _synth() -> None:
    pass


_synth.__doc__ = _HELP


@app.command()
@takes_config(SynthesisConfig, arguments=("source",))
@takes_placement
def repository(
    config: SynthesisConfig,
    placement: Placement = NO_PLACEMENT,
    as_json: JsonOption = False,
) -> None:
    """Makes repair and feature tasks from real code with tests; every task is checked in the sandbox before it is kept.

    SOURCE is an installed package's name, a wheel, an sdist, a folder, or a git repository's folder. Killed at any
    moment, the same command goes on where it was; one seed gives the same tasks. With --nodes, nodes judge the
    candidates, --concurrency at once in each.

    Examples:

      assay synth repository networkx --out tasks/ --count 24

      assay synth repository ./more-itertools-10.5.0.tar.gz --out tasks/ --count 60 --seed 3

      assay synth repository ./my-repository --out tasks/ --kind commit --requirement attrs==25.4.0

      assay synth repository networkx --out tasks/ --count 200 --nodes 4
    """

    from assay.synthesis import synthesise

    report, cost = _make(config, synthesise, placement, as_json=as_json)
    if not as_json:
        print_rows(_gate_rows(report.table))
        _print_reasons(report, config.out)
        if report.separation:
            counted = ", ".join(f"{count} {method}" for method, count in report.separation.items())
            console().print(
                f"deciding tests of the {quantity(len(report.tasks), 'task')}, by the method that judges them: "
                f"{counted}"
            )
        for sentence in report.release_sentences():
            console().print(sentence)
        console().print(cost.sentence())
        if report.tasks:
            _say_kinds(report, config)
            say(f"next: assay lint {config.out}; assay run {config.out} --agent oracle --agent null --run proof")


def _say_kinds(report: SynthesisReport, config: SynthesisConfig) -> None:
    """Says which kinds of tasks were asked for and are not among the kept ones, and why."""
    missing = [kind for kind in config.kinds if not any(task.kind == kind for task in report.tasks)]
    if missing == ["commit"] or not missing:
        return
    if len(report.tasks) < config.count:
        say(f"no candidate of the kind {' or '.join(missing)} was kept: the table says at which gates they ended")
        return
    present = [kind for kind in config.kinds if kind not in missing]
    flags = " ".join(f"--kind {kind}" for kind in missing)
    say(f"--count {config.count} was reached with the kind {' and '.join(present)}; to get others, give only {flags}")


def _print_reasons(report: SynthesisReport, out: str) -> None:
    """Prints why candidates were dropped, the commonest reasons of each gate first."""
    from pathlib import Path

    from assay.synthesis import count_reasons

    reasons = count_reasons(report.dropped)
    if reasons:
        console().print()
        print_rows([_reason_cells(one) for one in reasons[:MOST_REASONS]])
        if len(reasons) > MOST_REASONS:
            console().print(f"... and {quantity(len(reasons) - MOST_REASONS, 'more reason')}")
        console().print(f"{Path(out) / 'manifest.json'} names every dropped candidate with its reason")


def _reason_cells(one: ReasonCount) -> dict[str, str]:
    path, _, function = one.first.functions[0].partition("::") if one.first.functions else ("", "", "")
    place = f" in {path}::{function}" if function else f" in {path}" if path else ""  # a commit changes lines outside
    return {
        "dropped": str(one.candidates),
        "gate": one.gate,
        "reason": one.reason if len(one.reason) <= LONGEST_REASON else f"{one.reason[: LONGEST_REASON - 3]}...",
        "first of them": f"{', '.join(one.first.operators)}{place}",
    }


def _gate_rows(table: tuple[GateRow, ...]) -> list[dict[str, str]]:
    """Returns the gates at which candidates ended with their number, by kind; and the kept ones."""
    kinds = sorted({kind for row in table for kind in row.ended})
    return [
        {"gate": row.gate, "demand": row.demand, "ended here": str(row.total)}
        | {kind: str(row.ended.get(kind, 0)) for kind in kinds}
        for row in table
        if row.total or row.gate == "kept"
    ]


@app.command()
@takes_config(ProgramTasksConfig, arguments=("source",))
@takes_placement
def programs(config: ProgramTasksConfig, placement: Placement = NO_PLACEMENT, as_json: JsonOption = False) -> None:
    """Makes tasks to write a package's functions as programs in another language, judged by fresh inputs.

    A function qualifies where the package's tests call it with plain data (None, booleans, numbers, texts, lists,
    tuples, dictionaries). The program reads one JSON request a line and writes one JSON answer a line; the Python
    function answers the same requests in another sandbox. A language is a TOML file:

      name = "Ruby"

      file = "main.rb"

      run = ["ruby", "main.rb"]

      probe = ["ruby", "--version"]

    `compile` is a further list of words, where the language needs it; built in are c, node, perl and python.

    Examples:

      assay synth programs ./boltons-26.2.0.tar.gz --language node --out tasks/ --count 12

      assay synth programs ./boltons-26.2.0.tar.gz --language c --solutions ./my-programs --out tasks/

      assay synth programs ./humanize-4.17.0.tar.gz --language ./ruby.toml --out tasks/

      assay synth programs ./humanize-4.17.0.tar.gz --out tasks/ --count 60 --nodes 4
    """
    from assay.synthesis import synthesise_programs

    report, cost = _make(config, synthesise_programs, placement, as_json=as_json)
    if not as_json:
        _print_cost(report, cost)
        print_rows([{"gate": gate, "ended here": str(count)} for gate, count in report.ended.items()])
        for reason in sorted({task.solution for task in report.tasks}):
            console().print(_SOLUTIONS[reason])


_SOLUTIONS = {
    "bridge": "solutions that start the Python reference: they show that building, starting and judging work",
    "program": "solutions of yours in the language passed",
    "none": "tasks without a solution: no program in the language was judged",
}


@app.command()
@takes_config(QuestionTasksConfig, arguments=("source",))
@takes_placement
def questions(config: QuestionTasksConfig, placement: Placement = NO_PLACEMENT, as_json: JsonOption = False) -> None:
    """Makes questions about the execution of calls that a package's tests make, with exact answers.

    A question shows source and a call, and asks for the value that it returns or that a local variable has after a line
    has run for the k-th time. The agent writes the answer to a file, which is compared as data.

    Examples:

      assay synth questions ./boltons-26.2.0.tar.gz --out tasks/ --count 60

      assay synth questions ./humanize-4.17.0.tar.gz --out tasks/ --kind variable --per-function 2
    """
    from assay.synthesis import synthesise_questions

    report, cost = _make(config, synthesise_questions, placement, as_json=as_json)
    if not as_json:
        _print_cost(report, cost)
        print_rows([{"kind": kind, "questions": str(count)} for kind, count in report.asked.items()])


@app.command()
@takes_config(ServiceSetConfig, arguments=("apps",))
def services(config: ServiceSetConfig, as_json: JsonOption = False) -> None:
    """Makes tasks in stateful applications: requests from walks over their actions, judged by what the data became.

    APPS are the names of services (`assay plugins`), of which several share one world. The folder gets one file,
    `family.json`: the options, and each task with its digest. `assay run FOLDER` makes the same tasks again from it.

    Examples:

      assay synth services shop --out set/ --count 40

      assay synth services airline mail --out set/ --days 3 --distractors 2 --reads 4

      assay synth services bank --out set/ --level persona --mood mixed --disclosure precise --wrong 1 --tell

      assay synth services shop --out set/ --level persona --kind ambiguous --twins

      assay synth services console --out set/ --knob console.bad_releases=3 --knob console.decoys=100
    """
    from assay.synthesis import make_service_set

    from .sandboxed_synthesis import ProgressLines

    report = make_service_set(config, ProgressLines())
    if as_json:
        emit_json(report)
        return
    print_rows(
        [
            {"knob": name, "value": value, "tasks": str(count)}
            for name, values in report.knobs.items()
            for value, count in values.items()
        ]
    )
    made = f"{quantity(len(report.tasks), 'task')} of {report.wanted}"
    easy = "".join(f", {quantity(count, 'plan')} for {reason}" for reason, count in report.too_easy.items())
    console().print(f"{made} in {report.file}; left out: {quantity(report.near_duplicates, 'near-duplicate')}{easy}")
    console().print(
        f"over-specification: {report.given['mean']:.3f} of the arguments are in the text on average (median "
        f"{report.given['median']:.3f}); {report.given['share']:.1%} of the tasks give away half or more"
    )
    source = config.out if report.is_runnable else shlex.quote(report.family)
    say(f"next: assay run {source} --agent oracle --agent null --run proof; assay admit {source}")


for _command in (rewrite, twins, augment, site, walks):
    app.command()(_command)


def _make(
    config: Any, synthesise: Callable[..., Awaitable[Any]], placement: Placement, *, as_json: bool
) -> tuple[Any, SynthesisCost]:
    from pathlib import Path

    from assay.settings import Settings
    from assay.synthesis import write_cost

    from .sandboxed_synthesis import make_tasks
    from .synthesis_options import record_options

    record_options(config)
    where = placement.read(Settings.from_environment())
    report, cost = asyncio.run(make_tasks(config, synthesise, where))
    write_cost(Path(config.out), cost)
    if as_json:
        emit_json({**msgspec.to_builtins(report), "cost": msgspec.to_builtins(cost)})
    return report, cost


def _print_cost(report: Any, cost: SynthesisCost) -> None:
    made = f"{quantity(report.kept, 'task')} of {quantity(report.candidates, 'candidate')}"
    console().print(f"{made}; {cost.cpu_s:.0f} CPU seconds")
