"""`assay admit`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from assay.admission.config import AdmitConfig
from assay.errors import BudgetExceededError, UserError, add_filename
from assay.rollout.limits.run_budget import BudgetLimits

from .cluster import NodesOption, PlaceOption, TokenFileOption, read_placement, resumed_placement
from .options import takes_config
from .output import console, emit_json, explain_interruption, plain, quantity, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.admission.battery import Admission
    from assay.admission.fix import FixResult
    from assay.admission.report import SetReport
    from assay.admission.soundness import TaskReport
    from assay.rollout import Tally
    from assay.rollout.cluster.node_session import PlacedRunOptions
    from assay.settings import Settings

MOST_LINE = 2_000


class Repair(NamedTuple):
    """Result of `--fix`, and the report of the copies."""

    fixes: list[FixResult]
    report: SetReport | None


@takes_config(AdmitConfig, arguments=("tasks",))
def admit(
    config: AdmitConfig,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", help="Resume this run with its settings, or a larger budget; a finished one prints its report."
        ),
    ] = None,
    fix: Annotated[
        Path | None,
        typer.Option("--fix", help="Copy tasks with holes to this folder with safer settings, and admit the copies."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder for report.md and report.json.", show_default=False)
    ] = None,
    store: StoreOption = None,
    *,
    place: PlaceOption = None,
    nodes: NodesOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Proves verifiers sound before their verdicts are used: runs a battery of attempts on every task.

    The reference solution must pass, also under other circumstances; null answers and every known cheat must fail;
    mutants should be rejected and equivalent solutions accepted. A task without a hole gets a certificate in the store,
    which `assay run --admitted` demands. Exits with 1 where a task is not admitted.

    Examples:

      assay admit tasks/ --quick

      assay admit tasks/ --output report/

      assay admit tasks/hello --verification both --mutants 100 --seed 7

      assay admit tasks/ --fix fixed/

      assay admit --resume admit-20261121-201500-000000

      assay admit --resume admit-20261121-201500-000000 --budget-calls 400

      assay admit tasks/ --against rewritten/

      assay admit tasks/ --nodes 2
    """
    settings = settings_with(store)
    budget = BudgetLimits(config.budget_usd, config.budget_calls)
    if resume is not None and config != AdmitConfig(budget_usd=budget.cost_usd, budget_calls=budget.calls):
        raise UserError("--resume uses the run's own settings but the budget: omit tasks and other settings")
    if config.against and nodes is not None:
        raise UserError("--against compares on this machine: leave out --nodes and --place")
    if config.against:
        raise typer.Exit(_compare(config, settings, output, as_json=as_json))
    if resume is None:
        result = _admit(config, settings, read_placement(place, nodes, token_file, settings))
    else:
        name = pick_run(resume, settings)
        options = resumed_placement(name, settings, place, nodes, token_file)
        result = _resume(name, settings, None if budget.is_unlimited else budget, options)
    report = _build_report(result, output, settings)
    fixed = _fix(result, report, fix, settings, output) if fix is not None else None
    if as_json:
        repair = {} if fixed is None else {"fixed": fixed.fixes, "fixed_report": fixed.report}
        emit_json({"report": report, **repair})
    else:
        _print(report, fixed)
    if not all(task.is_admitted for task in report.tasks):
        raise typer.Exit(1)


def _admit(config: AdmitConfig, settings: Settings, nodes: PlacedRunOptions | None = None) -> Admission:
    from assay.admission.battery import admit as run_battery
    from assay.admission.battery import new_admission_name

    named = config if config.run is not None else msgspec.structs.replace(config, run=new_admission_name())
    return _run_with_display(
        lambda tally, on_task: run_battery(named, settings, tally, on_report=on_task, nodes=nodes), str(named.run)
    )


def _resume(run: str, settings: Settings, budget: BudgetLimits | None, nodes: PlacedRunOptions | None) -> Admission:
    from assay.admission.battery import resume_admission

    return _run_with_display(
        lambda tally, on_task: resume_admission(run, settings, tally, on_report=on_task, budget=budget, nodes=nodes),
        run,
    )


def _run_with_display(
    start: Callable[[Tally, Callable[[TaskReport], None]], Coroutine[Any, Any, Admission]], run: str
) -> Admission:
    from .live import display

    say(f"run {run}")
    try:
        kept = f"Completed attempts are stored; resume with `assay admit --resume {run}`"
        with explain_interruption(kept), display() as progress:
            return asyncio.run(start(progress, _print_task_line))
    except BudgetExceededError as exc:
        command = f"`assay admit --resume {run}`"
        say(f"{exc}. Completed attempts are stored; go on with {command} and a larger --budget-usd or --budget-calls")
        raise typer.Exit(3) from None


def _print_task_line(report: TaskReport) -> None:
    if not sys.stderr.isatty():
        holes = sum(f.severity == "hole" for f in report.findings)
        say(f"{report.task}: {report.conclusion}" + (f", {quantity(holes, 'hole')}" if holes else ""))


def _build_report(result: Admission, output: Path | None, settings: Settings) -> SetReport:
    from assay.admission.report import summarise_set, write_report

    report = summarise_set(result.run, result.config, result.reports)
    if output is not None:
        for path in write_report(report, output, settings):
            say(f"wrote {path}")
    return report


def _fix(result: Admission, report: SetReport, into: Path, settings: Settings, output: Path | None) -> Repair:
    """Copies tasks with holes, applies safe settings, and admits the copies in a run of their own."""
    from assay.admission.fix import apply_fixes
    from assay.tasks import find_tasks

    loaded = {one.task.id: one for one in find_tasks(result.config.tasks)}
    fixes = [apply_fixes(loaded[task.task], task, into) for task in report.tasks if task.task in loaded]
    copies = tuple(one.folder for one in fixes if one.folder is not None)
    if not copies:
        return Repair(fixes, None)
    fixed_config = msgspec.structs.replace(result.config, tasks=copies, run=None)
    fixed = _admit(fixed_config, settings)
    return Repair(fixes, _build_report(fixed, None if output is None else output / "fixed", settings))


def _print(report: SetReport, fixed: Repair | None) -> None:
    _print_tasks(report)
    if fixed is not None:
        _print_fixed(fixed)

    say(f'run {report.run}; next: assay run TASKS --admitted, assay query "select * from findings" --run {report.run}')


def _print_tasks(report: SetReport) -> None:
    from assay.admission.report import summary_line

    print_rows([_row(task) for task in report.tasks])
    for task in report.tasks:
        for found in task.findings:
            guess = " (a guess)" if found.heuristic else ""
            probe = f" {found.probe}" if found.probe else ""
            under = f" [{found.verification}]" if found.verification else ""
            closed = f" Closed by: {'; '.join(found.closed_by)}." if found.closed_by else ""
            text = f"{task.task}: {found.severity}{guess}: {found.kind}{probe}{under}: {found.text}{closed}"
            console().print(plain(text.replace("\n", " "))[:MOST_LINE])
    if report.summary.not_tested:
        console().print(plain(f"not tested: {report.summary.not_tested}")[: 10 * MOST_LINE])
    console().print(summary_line(report.summary))


def _row(task: TaskReport) -> dict[str, str]:
    rates, runs = task.sensitivity, task.completeness
    count = {name: sum(f.severity == name for f in task.findings) for name in ("hole", "broken", "weak", "note")}
    rejected = "-"
    if rates is not None and rates.best is not None:
        rejected = f"{rates.best:.2f} [{rates.best_interval.low:.2f}, {rates.best_interval.high:.2f}]"
    cost = task.cost
    return {
        "task": task.task,
        "result": task.conclusion,
        "separation": task.separation,
        **{f"{name}s" if name == "hole" else name: str(n) for name, n in count.items()},
        "flakes": f"{runs.tried - runs.passed} of {runs.tried}",
        "rejected": rejected,
        "s": "-" if cost.verification_s is None else f"{cost.verification_s:.2f}",
        "MiB": "-" if cost.peak_mib is None else f"{cost.peak_mib:.0f}",
    }


def _print_fixed(fixed: Repair) -> None:
    after = {} if fixed.report is None else {task.task: task for task in fixed.report.tasks}
    rows = []
    for one in fixed.fixes:
        now = after.get(one.task)
        holes = "-" if now is None else str(sum(f.severity == "hole" for f in now.findings))
        verdict = "-" if now is None else now.conclusion
        cells = {"task": one.task, "settings": "; ".join(one.settings) or one.reason, "copy": one.folder or "-"}
        rows.append(cells | {"result now": verdict, "holes left": holes})
    console().print("")
    print_rows(rows)


def _compare(config: AdmitConfig, settings: Settings, output: Path | None, *, as_json: bool) -> int:
    from assay.admission.environment_comparison import ComparisonOptions, compare_environments
    from assay.rollout.exchange.secret_check import SecretCheck

    from .live import display

    with display() as progress:
        report = asyncio.run(compare_environments(config, config.against, ComparisonOptions(), settings, progress))
    if output is not None:
        encoded = SecretCheck([], settings).clean(msgspec.json.encode(report)).data
        redacted = msgspec.json.decode(encoded, type=type(report))
        with add_filename(output):
            output.mkdir(parents=True, exist_ok=True)
            (output / "against.md").write_text(redacted.markdown(), encoding="utf-8")
            (output / "against.json").write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")
        say(f"wrote {output / 'against.md'} and {output / 'against.json'}")
    if as_json:
        emit_json(report)
    else:
        console().print(report.markdown())
    return 0 if report.equivalent else 1
