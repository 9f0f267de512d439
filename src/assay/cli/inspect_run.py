"""`assay ls` and `assay show`: what ran, and one attempt from its first step to its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with

if TYPE_CHECKING:
    from assay.records import Evidence, Step, Trajectory
    from assay.store import AttemptRow, RunStore

__all__ = ["ls", "show", "show_trajectory"]

SHOWN = 1200
"""Characters of an output that `show` prints without --full."""


def ls(
    run: RunArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Every try, not only the deciding ones.")] = False,
    runs: Annotated[bool, typer.Option("--runs", help="List the runs of the store instead.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lists the attempts of a run, or the runs of a store.

    Examples:

      assay ls

      assay ls --runs

      assay ls my-run --all --json
    """
    from assay.store import RunStore, list_runs

    from .output import emit_json
    from .tables import print_rows

    settings = settings_with(store)
    if runs:
        names = list_runs(settings.store)
        if as_json:
            emit_json({"runs": names})
        else:
            print_rows([{"run": name} for name in names])
        return
    with RunStore.open(settings.store, pick_run(run, settings)) as opened:
        rows = [r for r in opened.attempts() if every or r.final or r.finished is None]
    if as_json:
        emit_json({"run": opened.run, "attempts": rows})
    else:
        print_rows([_row(r) for r in rows])


def _row(row: AttemptRow) -> dict[str, str]:
    how = row.broke or row.stopped or ("ended" if row.finished is not None else "cut")
    return {
        "attempt": row.attempt,
        "agent": row.agent,
        "outcome": row.outcome or "-",
        "score": "-" if row.score is None else f"{row.score:g}",
        "how": how,
        "steps": str(row.steps),
        "seconds": f"{row.metrics.get('wall_s', 0):.1f}",
        "try": str(row.retry),
        "isolation": row.isolation or "-",
    }


def show(
    attempt: Annotated[
        str,
        typer.Argument(
            help="Name of an attempt (task@number), or its beginning; what stands before a slash may be left out."
        ),
    ],
    run: Annotated[str | None, typer.Option("--run", help="Name of the run; default: the newest one.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long outputs.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Shows one attempt: steps, commands, outputs, what changed, and each verdict with its evidence.

    Examples:

      assay show hello@0

      assay show assay/networkx-2dd29d3eeb@0 --run my-run --full

      assay show networkx-2dd --json
    """
    from assay.store import RunStore

    from .output import emit_json

    settings = settings_with(store)
    with RunStore.open(settings.store, pick_run(run, settings)) as opened:
        row = opened.find(attempt)
        trajectory = opened.trajectory(row.chain)
        if as_json:
            emit_json(trajectory)
            return
        show_trajectory(trajectory, opened, shown=10**9 if full else SHOWN)


def show_trajectory(trajectory: Trajectory, opened: RunStore, *, shown: int = SHOWN) -> None:
    """Prints a trajectory on stdout."""
    from .output import console, plain

    out = console()
    held = trajectory.isolation
    out.print(f"attempt {trajectory.attempt}  run {trajectory.run}  agent {trajectory.agent}  seed {trajectory.seed}")
    unsafe = held is not None and held.name == "none"
    out.print(f"isolation {held.name if held else 'unknown'}", style="bold red" if unsafe else None)
    for step in trajectory.steps:
        out.print(plain(_step(step, shown)))
    for found in trajectory.evidence:
        if found.kind == "snapshot" and found.data.get("manifest"):
            out.print(plain(_changes(found, opened)))
    for verdict in trajectory.verdicts:
        marks = f"  marks: {', '.join(verdict.marks)}" if verdict.marks else ""
        style = {"pass": "green", "fail": "yellow"}.get(verdict.status, "red")
        line = f"verdict {verdict.check}: {verdict.status} (score {verdict.score}) - {verdict.reason}{marks}"
        out.print(plain(line), style=style)
        out.print(
            plain(f"  evidence {', '.join(verdict.evidence) or 'none'}; verifier {(verdict.verifier or '-')[:19]}")
        )
    end = trajectory.finished
    how = "still open" if end is None else (end.broke or end.stopped or end.ended or "ended without a word")
    if end is not None and end.error:
        out.print(plain(f"{end.broke} failed: {end.error}"), style="red")
    out.print(plain(f"how it ended: {how}; {trajectory.length} events, head {trajectory.head[:19]}"))


def _step(step: Step, shown: int) -> str:
    lines = [f"[{step.index}] {step.message or ''}".rstrip()]
    seen = {o.call_id: o for o in step.observations}
    for call in step.tool_calls:
        lines.append(f"  > {call.name} {_cut(call.arguments, shown)}")
        found = seen.get(call.id)
        if found is None:
            continue
        code = "" if found.exit_code is None else f" (exit {found.exit_code})"
        text = _cut((found.content + found.stderr).rstrip(), shown)
        lines.append("    " + (text or "(no output)").replace("\n", "\n    ") + code)
    return "\n".join(lines)


def _changes(found: Evidence, opened: RunStore) -> str:
    import msgspec

    manifest = msgspec.json.decode(opened.blobs.get(found.data["manifest"]))
    files = [c for c in manifest if c.get("type", "file") != "directory"]
    lines = [f"  {c['kind']:8} {c['path']}" for c in files[:40]]
    more = [f"  ... and {len(files) - 40} more"] if len(files) > 40 else []
    return "\n".join([f"changed files ({len(files)}), state {found.data['digest'][:19]}", *lines, *more])


def _cut(text: str, shown: int) -> str:
    if len(text) <= shown:
        return text
    half = shown // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters not shown (--full shows them) ...\n{text[-half:]}"
