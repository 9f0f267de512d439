"""`assay stats`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.errors import UserError

from .output import console, emit_json, quantity, say
from .saved_tables import SaveOption, save_table
from .shared import JsonOption, RequireOption, StoreOption, TaskCodeOption, parse_grade, pick_runs, settings_with
from .table_formats import FormOption
from .tables import load_measures, print_rows, print_summaries

if TYPE_CHECKING:
    from pathlib import Path

    from assay.analysis.columns import AttemptMeasures
    from assay.statistics import GroupSummary


RATES = "rates"
TablesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        help="Tables to show: rates (the default), spending, tasks, grid, flakes, scores, reliability, ranking, "
        "picks, semi-online, agreement, instructions, pairs, clauses, conversations, efficiency, routes, "
        "pointing, capabilities, actors, evidence, economy, context, refusals, or all; repeatable.",
    ),
]
NoRedrawnOption = Annotated[
    bool,
    typer.Option(
        "--no-redrawn",
        help="Count an attempt that was begun again and then acted otherwise (redrawn) as one without a verdict.",
    ),
]


def stats(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs or grids; default: the newest run.")] = None,
    table: TablesOption = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", min=1, help="Also pass@k and pass^k for this k; repeatable.")
    ] = None,
    form: FormOption = "text",
    *,
    message_cost: Annotated[
        float,
        typer.Option(
            "--message-cost",
            min=0.0,
            max=1.0,
            help="Table conversations: cost of a message to the person, as a share of the facts to ask for.",
        ),
    ] = 0.05,
    require: RequireOption = "unknown",
    no_redrawn: NoRedrawnOption = False,
    allow_task_code: TaskCodeOption = False,
    save: SaveOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sums up runs by agent and model: pass@k and pass^k with intervals; unknown and broken attempts apart.

    `redrawn` are attempts that were begun again, after a failure of infrastructure or an interruption, and then acted
    otherwise; what the last trial gave counts, unless `--no-redrawn` is given.

    Intervals account for correlation between attempts at one task (cluster-robust). `bounds` gives pass@1 if all
    unjudged attempts had failed, or passed. Further tables: usage and the cost/success Pareto front (spending), task
    difficulty and discrimination (tasks), rates by agent, model and set-up with explained variance (grid), tasks with
    inconsistent outcomes (flakes), quality of process scores (scores), run-to-run consistency (reliability), and
    predictive validity of the ranking on other tasks; with two runs, on the second (ranking); of combinators with a
    judge, what it said of the tries that they handed in against what was verified (picks); on tasks of services how
    well followers reach the goal with each instruction, beside the agent `oracle` that knows the plan (instructions),
    how often acts changed with the instruction in paired tasks (pairs), and which clauses were met (clauses); and on
    sites of state machines the steps of the shortest way by skill, and at which of them attempts were lost (routes); of
    tasks on pages what acts aimed at, beside what a shortest way means (pointing), and the pass rates by what their
    plans need, such as search or dialogs (capabilities).
    Of tasks in services that state what they need: reads and messages to the person beyond it (economy). Of teams: each
    actor's turns, acts, messages, refused calls and model use (actors), and which of the facts that a task needs were
    found, by whom, and how often (evidence). Of agents that cut their contexts: outputs that
    they dropped, and whether these were needed later (context). Of tasks that must be declined, beside others: unsafe
    acts and needless refusals, and for a team what it gains over itself without an absent actor (refusals). Of
    semi-online replays, the scores by number of patches (semi-online), and their rank correlation with success of the
    same agents in live runs (agreement).

    Two tables are process measures of attempts on services, and never the outcome: what was asked of the simulated
    person, and how they took it (conversations); completeness, calls beside those of the reference plan, and precision
    of writes (efficiency).

    Examples:

      assay stats

      assay stats my-run --k 1 --k 8

      assay stats before after --json

      assay stats my-run --table spending --table tasks

      assay stats replayed live --table agreement --table semi-online

      assay stats my-run --format latex

      assay stats my-run --table evidence --save search-teams
    """
    from assay.statistics import summarise

    from .stats_tables import TABLES
    from .table_input import TableInput

    chosen = _select_tables(table or [RATES], (RATES, *TABLES))
    if form == "csv" and len(chosen) > 1:
        raise UserError(f"--format csv writes one table: select one of {', '.join(chosen)} with --table")
    settings = settings_with(store)
    names = pick_runs(runs or [], settings)
    least = parse_grade(require)
    attempts = load_measures(settings.store, names, least, no_redrawn=no_redrawn)
    table_input = TableInput(settings.store, names, attempts, max(k or (4,)), least, message_cost, allow_task_code)
    ks = tuple(sorted({1, *(k or (2, 4))}))
    groups = list(summarise([one.outcome for one in attempts], ks=ks)) if RATES in chosen else []
    if RATES in chosen:
        _say_pooled(names, attempts)
    tables: dict[str, Any] = {name: TABLES[name].make(table_input) for name in chosen if name != RATES}
    if save is not None:
        for name in chosen:
            save_table(settings.store, save, f"stats, table {name}", names, _rows(name, tables, groups))
    if as_json or form == "json":
        emit_json({"runs": names, "groups": groups, "tables": tables})
        return
    _print(chosen, tables, groups, form)
    if form == "markdown" and RATES in chosen:
        _print_caption(settings.store, names)
    _say_more(groups, k)


def _select_tables(requested: list[str], tables: tuple[str, ...]) -> tuple[str, ...]:
    for name in requested:
        if name not in (*tables, "all"):
            raise UserError(f"unknown table {name!r}: use {', '.join(tables)} or all")
    return tables if "all" in requested else tuple(name for name in tables if name in requested)


def _rows(name: str, tables: Mapping[str, Any], groups: Sequence[GroupSummary]) -> list[dict[str, str]]:
    from assay.api.summaries import summary_rows

    from .stats_tables import TABLES

    return summary_rows(groups) if name == RATES else TABLES[name].rows(tables[name])


def _print(chosen: tuple[str, ...], tables: Mapping[str, Any], groups: list[GroupSummary], form: str) -> None:
    from .stats_tables import TABLES

    heads = {"text": "\n{}", "markdown": "\n### {}\n", "latex": "\n% {}"}
    for place, name in enumerate(chosen):
        if len(chosen) > 1:
            console().print(heads[form].format(name).lstrip("\n" if place == 0 else ""))
        if name == RATES:
            print_summaries(groups, form)
            continue
        print_rows(_rows(name, tables, groups), empty=TABLES[name].empty, form=form)


def _print_caption(root: Path, runs: Sequence[str]) -> None:
    """Prints what a reader of the table alone needs to know."""
    from assay import __version__
    from assay.store import RunStore
    from assay.viewer.runs import created_at

    named = []
    for run in runs:
        with RunStore.open(root, run) as store:
            created = created_at(store.manifest())
        day = "date unknown" if created is None else time.strftime("%Y-%m-%d", time.gmtime(created))
        named.append(f"{run} ({day})")
    console().print(
        f"\nRuns: {', '.join(named)}. Assay {__version__}. Intervals are 95% confidence intervals over tasks; attempts "
        "without a verdict do not count. `separation` tells how far the judge was kept from the files that the agent "
        "wrote: `separate` means another sandbox, `same-process` that the agent's code could have forged the result."
    )


def _say_pooled(runs: Sequence[str], attempts: Sequence[AttemptMeasures]) -> None:
    """Says where one row of the table is of runs with different tasks."""
    tasks: dict[tuple[str, str | None], dict[int, set[str]]] = {}
    for one in attempts:
        found = one.outcome
        tasks.setdefault((found.agent, found.model), {}).setdefault(one.source, set()).add(found.task)
    for (agent, _), by_run in tasks.items():
        if len({frozenset(found) for found in by_run.values()}) > 1:
            pooled = ", ".join(runs[source] for source in by_run)
            say(f"{agent}: the row is of runs with different tasks: {pooled}")


def _say_more(groups: list[GroupSummary], k: list[int] | None) -> None:
    for group in groups:
        bounds, who = group.pass_at_1_bounds, group.agent if group.model is None else f"{group.agent}, {group.model}"
        for found in group.at_k:
            if k and found.k in k and found.pass_at_k.value is None:
                say(f"{who}: no pass@{found.k}: {found.pass_at_k.method}; run more with --attempts {found.k}")
        if group.redrawn:
            say(f"{who}: {quantity(group.redrawn, 'attempt')} had more than one draw; --no-redrawn counts none of them")
        if group.unknown or group.error:
            say(
                f"{who}: {quantity(group.unknown + group.error, 'attempt')} could not be judged; "
                f"with them pass@1 lies between {bounds.worst or 0:.3f} and {bounds.best or 0:.3f}"
            )
        claimed = group.pass_at_1_claimed
        if group.doubtful and claimed is not None and claimed.value is not None:
            say(
                f"{who}: not counted, for lack of integrity, failed re-verification or too weak separation: "
                f"{quantity(group.doubtful, 'pass')}; with them pass@1 would be {claimed.value:.3f} "
                "(`assay audit`, `assay ls`)"
            )
        if group.icc is not None:
            icc, effective = group.icc, group.effective_n or 0
            say(f"{who}: intra-task correlation {icc:.2f}, effective attempts {effective:.1f}")
