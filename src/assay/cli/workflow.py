"""`assay workflow`: checks workflow files, and measures how far recorded attempts follow one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import StoreError

from .output import emit_json, quantity, say
from .plain_typer import plain_typer
from .saved_tables import SaveOption, save_table
from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.agents.workflow.interpreter import Adherence, RecordedResult
    from assay.agents.workflow.spec import Workflow
    from assay.records import Noted, Trajectory
    from assay.store import RunStore

app = plain_typer(help="Checks workflow files, and measures how far attempts follow them.")
FileArgument = Annotated[Path, typer.Argument(help="Workflow file (TOML).", show_default=False)]


@app.callback()
def _root() -> None:
    """Checks workflow files, and measures how far attempts follow them."""


@app.command("check")
def check(file: FileArgument, as_json: JsonOption = False) -> None:
    """Checks a workflow without running it: names, routes, patterns, and that each value exists where it is used.

    A reference to a node's result is accepted only if that node succeeded on every way to it. Exits with 2 where
    something is wrong.

    Examples:

      assay workflow check refund.toml

      assay workflow check refund.toml --json
    """
    from assay.agents.workflow.spec import END, read_workflow

    flow = read_workflow(file)
    rows = [
        {"node": one.name, "tool": one.tool, "next": flow.following(one), "otherwise": one.otherwise,
         "require": str(len(one.require)), "ensure": str(len(one.ensure)), "tries": str(one.tries)}
        for one in flow.nodes
    ]  # fmt: skip
    if as_json:
        emit_json({"workflow": flow.workflow, "nodes": rows})
        return
    print_rows(rows)
    ends = sum(END in (flow.following(one), one.otherwise) for one in flow.nodes)
    say(f"{flow.workflow}: {quantity(len(flow.nodes), 'node')}, of which {ends} may end it")


@app.command("follow")
def follow(
    file: FileArgument,
    run: RunArgument = None,
    record: Annotated[
        bool, typer.Option("--record", help="Note the result in each attempt, for its page in assay view.")
    ] = False,
    save: SaveOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measures how far the attempts of a run follow a workflow, whoever made them.

    A call follows it if it is the workflow's next one with its arguments, as the results before it make them. Others
    are deviations; the first is shown with the call that was expected. A workflow that ended in a failure names the
    node: an error at run time has a place.

    Examples:

      assay workflow follow refund.toml my-run

      assay workflow follow refund.toml my-run --json

      assay workflow follow refund.toml my-run --record --save refunds
    """
    from assay.agents.workflow.spec import read_workflow
    from assay.store import RunStore, annotate_all, final_rows

    flow, settings = read_workflow(file), settings_with(store)
    name = pick_run(run, settings)
    found: list[tuple[str, str, Adherence]] = []
    notes: dict[str, list[Noted]] = {}
    skipped = 0
    with RunStore.open(settings.store, name) as opened:
        for row in final_rows(opened.attempts()):
            adherence = _adherence(flow, opened.trajectory(row.chain), opened)
            if adherence is None:
                skipped += 1
            else:
                found.append((row.called, row.outcome or "-", adherence))
                notes[row.chain] = [_note(flow, adherence)]
    if record and notes:
        annotate_all(settings.store, name, notes)
        say(f"noted in {quantity(len(notes), 'attempt')}: assay view shows it on their pages")
    rows, summary = [_row(*one) for one in found], _summarise(flow, [one for _, _, one in found], skipped)
    if save is not None:
        save_table(settings.store, save, "workflow follow", [name], rows, notes=summary, chains=list(notes))
    if as_json:
        emit_json([{"attempt": a, "outcome": o, "share": f.share, "adherence": f} for a, o, f in found])
    else:
        print_rows(rows, empty="no attempt has a record of its task")
    for line in summary:
        say(line)


def _summarise(flow: Workflow, found: list[Adherence], skipped: int) -> list[str]:
    lines = []
    if found:
        share, finished = sum(one.share for one in found) / len(found), sum(one.is_finished for one in found)
        lines.append(f"{share:.3f} of an attempt's calls follow {flow.workflow}; {finished} finished it")
    if skipped:
        lines.append(f"left out, without a copy of their task: {quantity(skipped, 'attempt')}")
    return lines


def _adherence(flow: Workflow, made: Trajectory, store: RunStore) -> Adherence | None:
    from assay.agents.workflow.interpreter import follow as follow_calls
    from assay.rollout.recording.task_archive import read_task_record

    record = next((item.data.get("record") for item in made.evidence if item.kind == "task"), None)
    if not isinstance(record, str):
        return None
    try:
        task = read_task_record(store.blobs, record)
    except StoreError:
        return None
    return follow_calls(flow, task, _calls(made))


def _note(flow: Workflow, one: Adherence) -> Noted:
    from assay.agents.workflow.agent import KIND
    from assay.records import Noted, digest_record

    data = {
        "workflow": flow.workflow,
        "digest": digest_record(flow),
        "calls": one.calls,
        "followed": one.followed,
        "finished": one.is_finished,
        "deviated_at": one.deviated_at,
        "expected": one.expected,
        "failed": "" if one.failed is None else one.failed.describe(),
        "nodes": [list(pair) for pair in one.nodes],
    }
    return Noted(KIND, data, time.time())


def _calls(made: Trajectory) -> list[RecordedResult]:
    from assay.agents.composites import parse_result
    from assay.agents.workflow.interpreter import RecordedResult
    from assay.records import pair_observations

    found = []
    for step in made.steps:
        if step.actor not in ("agent", "other_agent"):
            continue
        for call, seen in zip(step.tool_calls, pair_observations(step.tool_calls, step.observations), strict=True):
            first = next(iter(seen), None)
            result = None if first is None else parse_result(first.content)
            error = first is None or bool(first.error)
            found.append(RecordedResult(step.index, call.name, call.parsed or {}, result, error))
    return found


def _row(attempt: str, outcome: str, one: Adherence) -> dict[str, str]:
    return {
        "attempt": attempt,
        "outcome": outcome,
        "followed": f"{one.followed} of {one.calls}",
        "finished": "yes" if one.is_finished else "no",
        "deviated at": "-" if one.deviated_at is None else str(one.deviated_at),
        "expected": one.expected or "-",
        "failed node": "-" if one.failed is None else f"{one.failed.node} ({one.failed.phase})",
    }
