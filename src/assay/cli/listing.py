"""`assay ls`: lists the attempts of a run, or the runs of a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from assay.errors import AssayError, UserError
from assay.verdicts import assess

from .output import emit_json, quantity, say
from .shared import JsonOption, RunArgument, StoreOption, pick_runs, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.store import AttemptRow, RunStore
    from assay.verdicts import Trust

LISTED_ATTEMPTS, LISTED_RUNS = 500, 50


def ls(
    run: RunArgument = None,
    every: Annotated[bool, typer.Option("--all", help="List every trial, not only the deciding ones.")] = False,
    runs: Annotated[bool, typer.Option("--runs", help="List the runs of the store instead.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=0,
            help="Lines to print; 0 prints all. Default: 500 attempts, or the 50 newest runs; --json prints all.",
        ),
    ] = None,
    offset: Annotated[
        int, typer.Option("--offset", min=0, help="Skip this many attempts, or this many of the newest runs.")
    ] = 0,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lists the attempts of a run, or the runs of a grid or store with date, agent, model, outcomes and state.

    A run is `running` (a process writes it), `interrupted` (`assay resume` completes one of `assay run`), `finished`,
    or `sealed`.

    Examples:

      assay ls

      assay ls --runs --limit 10

      assay ls my-run --all --json
    """
    from assay.store import RunStore, check_rows, current_verdicts_by_chain

    settings = settings_with(store)
    if runs and (run is not None or every):
        raise UserError("--runs lists the runs of the store: omit the run's name and --all")
    if runs:
        _list_runs(settings.store, LISTED_RUNS if limit is None and not as_json else limit, offset, as_json=as_json)
        return
    names = pick_runs([run] if run is not None else [], settings)
    if len(names) > 1:
        _require_no_paging(names, every or limit is not None or offset > 0)
        _print_runs(settings.store, names, as_json=as_json)
        return
    with RunStore.open(settings.store, names[0]) as opened:
        checked = check_rows(opened)
        listed = list(checked.rows) if every else _deciding_rows(checked.rows)
        most = limit if limit is not None or as_json else LISTED_ATTEMPTS
        rows = listed[offset : offset + most] if most else listed[offset:]
        stands = current_verdicts_by_chain(opened, rows, checked.verdicts)
        empty = _nothing_listed(opened, len(listed), offset)
    trusts = {r.chain: assess(stands[r.chain], r) for r in rows}
    if as_json:
        emit_json(
            {
                "run": opened.run,
                "attempts": [{**msgspec.to_builtins(r), "separation": trusts[r.chain].separation} for r in rows],
                "headlines": {chain: trust.headline for chain, trust in trusts.items()},
                "outcome_classes": {chain: trust.outcome_class for chain, trust in trusts.items()},
                "standing": {r.chain: stands[r.chain] for r in rows},
                "differing": checked.differing,
            }
        )
    else:
        named = all(r.attempt.startswith(r.task) for r in rows)
        shown = [_row(r, trusts[r.chain], checked.differing.get(r.chain, ()), named=named) for r in rows]
        print_rows(shown, empty=empty)
        _say_rest(len(listed) - offset - len(rows), "attempt", offset + len(rows))
    if warning := checked.warning():
        say(f"warning: {warning}")


def _require_no_paging(names: Sequence[str], paged: bool) -> None:
    if paged:
        raise UserError(f"this is the grid of {', '.join(names)}: --all, --limit and --offset need one run")


def _deciding_rows(rows: Sequence[AttemptRow]) -> list[AttemptRow]:
    """Returns the deciding trial of each attempt, or the newest one of an attempt that has not ended."""
    begun = {r.attempt for r in rows if r.finished is None}
    newest = {r.attempt: r.retry for r in sorted((r for r in rows if r.attempt in begun), key=lambda r: r.retry)}
    return [r for r in rows if r.final or (r.finished is None and r.retry == newest[r.attempt])]


def _list_runs(root: Path, limit: int | None, offset: int, *, as_json: bool) -> None:
    from assay.store import list_runs

    names = list_runs(root)
    end = len(names) - offset
    chosen = names[max(0, end - limit) if limit else 0 : max(0, end)]
    _print_runs(root, chosen, as_json=as_json)
    if not as_json:
        _say_rest(max(0, end) - len(chosen), "older run", offset + len(chosen))


def _print_runs(root: Path, names: Sequence[str], *, as_json: bool) -> None:
    lines = [_summarise(root, name) for name in names]
    if as_json:
        emit_json({"runs": names, "summaries": lines})
    else:
        print_rows([_run_row(line) for line in lines], empty=f"no runs in {root}: `assay run` makes one")


def _nothing_listed(store: RunStore, attempts: int, offset: int) -> str:
    from assay.rollout.run_manifest import PLACE

    run = store.run
    if attempts:
        return f"no attempt is left after --offset {offset}: run {run} has {quantity(attempts, 'attempt')}"
    if PLACE in store.manifest():
        return f"the attempts of run {run} are with its nodes until it is complete: `assay status {run}` shows them"
    return f"no attempt of run {run} has started: `assay resume {run}` continues it"


def _say_rest(number: int, noun: str, following: int) -> None:
    if number > 0:
        say(f"not listed: {quantity(number, noun)}; --offset {following} lists further ones, --limit 0 all")


def _summarise(root: Path, run: str) -> dict[str, Any]:
    """Returns the line of a run; one that cannot be read has its error."""
    from assay.viewer.runs import run_line, run_state

    try:
        line = run_line(root, run)
    except AssayError as exc:
        return {"run": run, "error": str(exc)}
    return {**msgspec.to_builtins(line), "state": run_state(root, line)}


def _run_row(line: dict[str, Any]) -> dict[str, str]:
    created = line.get("created")
    counts = ", ".join(f"{count} {name}" for name, count in line.get("counts", {}).items())
    planned, decided = line.get("planned"), line.get("attempts", 0)
    return {
        "run": line["run"],
        "created": "-" if created is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(created)),
        "agent": ", ".join(line.get("agents", ())) or "-",
        "model": ", ".join(line.get("models", ())) or "-",
        "tasks": str(line.get("tasks", "-")),
        "attempts": f"{decided} of {planned}" if planned is not None and planned != decided else str(decided),
        "outcomes": counts or "-",
        "state": f"unreadable: {line['error']}" if "error" in line else line["state"],
    }


def _row(row: AttemptRow, trust: Trust, differing: tuple[str, ...], *, named: bool) -> dict[str, str]:
    how = row.broke or row.stopped or ("ended" if row.finished is not None else "cut")
    return {
        "attempt": row.attempt,
        **({} if named else {"task": row.called}),
        "agent": row.agent,
        "outcome": trust.headline + (f" (summary row differs: {', '.join(differing)})" if differing else ""),
        "separation": trust.separation if row.outcome == "pass" else "-",
        "score": "-" if row.score is None else f"{row.score:g}",
        "how": how,
        "steps": str(row.steps),
        "seconds": f"{row.metrics.get('wall_s', 0):.1f}",
        "try": str(row.retry),
        "isolation": row.isolation or "-",
    }
