"""`assay show`: shows one attempt."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from assay.errors import PluginLoadError, StoreError
from assay.records import VerdictAdded, pair_observations
from assay.verdicts import assess

from .output import console, emit_json, plain, quantity, say
from .shared import JsonOption, StoreOption, TaskCodeOption, pick_run, settings_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.analysis.signals import Signals
    from assay.records import Evidence, Step, Trajectory, Verdict
    from assay.store import RunStore

SHOWN = 1200
"""Characters of an output that `show` prints without --full."""
LAST_LINES = 20
"""Lines of a traceback, or of a program's output, that `show` prints without --full."""
MOST_OUTPUT = 16 << 20


class _Change(msgspec.Struct, frozen=True):
    kind: str
    path: str
    type: str = "file"


class _ChecklistFact(msgspec.Struct, frozen=True):
    fact: str
    disclosure: str
    status: str
    turn: int | None = None
    message: int | None = None
    quote: str = ""


def show(
    attempt: Annotated[
        str,
        typer.Argument(help="Name of an attempt (task@number) or a prefix; the part before a slash is optional."),
    ],
    run: Annotated[str | None, typer.Option("--run", help="Name of the run; default: the newest one.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long outputs.")] = False,
    store: StoreOption = None,
    allow_task_code: TaskCodeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Shows one attempt: steps, commands, outputs, changed files, each verdict with its evidence, and triage signals.

    At tasks of services it also shows each clause of the instruction with what judges it.

    Examples:

      assay show hello@0

      assay show assay/networkx-2dd29d3eeb@0 --run my-run --full

      assay show networkx-2dd --json
    """
    from assay.store import RunStore, check_rows, current_verdicts_by_chain

    from .cards import print_audit_findings
    from .service_tables import clause_lines, clause_objects, clause_results

    settings = settings_with(store)
    with RunStore.open(settings.store, pick_run(run, settings)) as opened:
        chain = opened.find(attempt).chain
        checked = check_rows(opened, chain)
        trajectory = opened.trajectory(chain)
        row = next(one for one in checked.rows if one.chain == chain)
        stands = current_verdicts_by_chain(opened, [row], checked.verdicts)
        trust = assess(stands[row.chain], row)
        if as_json:
            trust_fields = {
                "headline": trust.headline,
                "outcome_class": trust.outcome_class,
                "separation": trust.separation,
            }
            found = _signals_of(trajectory)
            more = {} if found is None else {"signals": found}
            clauses = clause_objects(clause_results(trajectory, opened, allow_task_code=allow_task_code))
            judged_by = {"clauses": clauses} if clauses else {}
            differs = {"differing": checked.differing[chain]} if checked.differing else {}
            emit_json(
                {
                    **msgspec.to_builtins(trajectory),
                    **trust_fields,
                    **more,
                    **differs,
                    **judged_by,
                    "standing": stands[row.chain],
                }
            )
            return
        if warning := checked.warning():
            say(f"warning: {warning}")
        show_trajectory(trajectory, opened, output_chars=10**9 if full else SHOWN)
        for line in clause_lines(clause_results(trajectory, opened, allow_task_code=allow_task_code)):
            console().print(_block(line))
        _print_signals(_signals_of(trajectory))
        print_audit_findings(settings.store, trajectory, trust)


def _signals_of(trajectory: Trajectory) -> Signals | None:
    """Returns the triage signals; None, with a warning, where an installed set of signals fails."""
    from assay.analysis.signals import signals_of

    try:
        return signals_of(trajectory)
    except PluginLoadError as exc:
        say(f"warning: no signals: {exc}")
        return None


def _print_signals(signals: Signals | None) -> None:
    if signals is not None and signals.counts:
        listed = ", ".join(f"{name} {number}" for name, number in sorted(signals.counts.items()))
        console().print(_block(f"signals: {listed}; quality {signals.quality:.0f} of 100 ({signals.bucket})"))


def show_trajectory(trajectory: Trajectory, opened: RunStore, *, output_chars: int = SHOWN) -> None:
    """Prints a trajectory on stdout."""
    from assay.store import erasures

    out = console()
    isolation = trajectory.isolation
    who = f"agent {trajectory.agent}  seed {trajectory.seed}"
    out.print(_block(f"attempt {trajectory.attempt}  run {trajectory.run}  {who}"))
    unsafe = isolation is not None and isolation.name == "none"
    out.print(f"isolation {isolation.name if isolation else 'unknown'}", style="bold red" if unsafe else None)
    for step in trajectory.steps:
        out.print(_step(step, output_chars))
    for found in trajectory.evidence:
        if found.kind == "snapshot" and found.data.get("manifest"):
            out.print(_changes(found, opened))
    for line in _checklist(trajectory):
        out.print(_block(line))
    for verdict in trajectory.verdicts:
        _show_verdict(verdict)
    for number, verdict in _addendum_verdicts(trajectory, opened):
        _show_verdict(verdict, f" (addendum {number})")
    for erasure in erasures(opened, trajectory.chain):
        out.print(_block(f"erased: {erasure.blob}: {erasure.reason}"), style="yellow")
    end = trajectory.finished
    if end is None:
        recorded = {call.id for call in trajectory.calls}
        begun = [str(note.data.get("call")) for note in trajectory.notes if note.name == "call begun"]
        for call in (one for one in begun if one not in recorded):
            out.print(_block(f"model call {call[:40]} was in progress when the record ended"), style="yellow")
    for found in trajectory.evidence:
        if _is_failed_program(found):
            out.print(_failed_program(found, opened, output_chars), style="red")
        elif _is_program(found) and (output_chars > SHOWN or not trajectory.steps):
            out.print(_ended_program(found, opened, output_chars))
    how = "still open" if end is None else (end.broke or end.stopped or end.ended or "ended without a reason")
    if end is not None and end.error:
        out.print(_block(f"{end.broke} failed: {end.error}"), style="red")
        if end.traceback is not None:
            out.print(_block(f"    {_last_lines(end.traceback, output_chars)}"), style="red")
    out.print(_block(f"how it ended: {how}; {quantity(trajectory.length, 'event')}, head {trajectory.head[:19]}"))


def _checklist(trajectory: Trajectory) -> Iterator[str]:
    """Yields a line for each fact that the simulated person knew: where it was told."""
    facts = next((e.data.get("facts") for e in reversed(trajectory.evidence) if e.kind == "facts"), None)
    try:
        items = msgspec.convert(facts["summaries"]["conversation"]["checklist"], list[_ChecklistFact]) if facts else []
    except (KeyError, TypeError, msgspec.ValidationError):
        return
    for item in items:
        where = "" if item.turn is None else f" at turn {item.turn} (message {item.message}): {item.quote}"
        yield f"fact {item.fact!r} ({item.disclosure}): {item.status}{where}"


def _is_program(found: Evidence) -> bool:
    """Returns whether this is a program of the agent's own, outside its steps."""
    return bool(found.data.get("beside")) and found.kind in ("execution", "execution_cut")


def _is_failed_program(found: Evidence) -> bool:
    """Returns whether this is a program of the agent's own, outside its steps, that failed or was cut."""
    return _is_program(found) and (found.kind == "execution_cut" or found.data.get("exit_code") != 0)


def _failed_program(found: Evidence, opened: RunStore, output_chars: int) -> str:
    """Returns command, exit code and the end of stderr; all of stderr where nothing is cut."""
    data = found.data
    ended = data.get("killed_by") or data.get("cause") or f"exit code {data.get('exit_code')}"
    lines = _last_lines(_stream(found, "stderr", opened, output_chars), output_chars) or "(nothing on stderr)"
    return _block(f"program failed with {ended}: {_command(found, output_chars)}\n{lines}")


def _ended_program(found: Evidence, opened: RunStore, output_chars: int) -> str:
    """Returns command and the end of what a program that did not fail printed."""
    streams = [_stream(found, name, opened, output_chars).rstrip() for name in ("stdout", "stderr")]
    lines = "\n".join(_last_lines(text, output_chars) for text in streams if text) or "(it printed nothing)"
    return _block(f"program ended with exit code 0: {_command(found, output_chars)}\n{lines}")


def _command(found: Evidence, output_chars: int) -> str:
    argv = found.data.get("argv")
    return _cut(argv if isinstance(argv, str) else shlex.join(str(word) for word in argv or ()), output_chars)


def _stream(found: Evidence, name: str, opened: RunStore, output_chars: int) -> str:
    """Returns a program's stdout or stderr as recorded; the whole of it where nothing is cut."""
    recorded = str(found.data.get(name) or "")
    whole = _whole_stream(found, name, opened) if output_chars > SHOWN else None
    return whole or recorded


def _whole_stream(found: Evidence, name: str, opened: RunStore) -> str | None:
    """Returns a stored stream where the record has a part of it; None if it has all, or the blob is gone."""
    size, recorded = found.data.get(f"{name}_bytes"), str(found.data.get(name) or "")
    if not isinstance(size, int) or size <= len(recorded.encode()):
        return None
    for digest in reversed(found.blobs):  # stdin, stdout and stderr, each where it was stored
        with suppress(StoreError):
            stored = opened.blobs.get(digest, limit=MOST_OUTPUT)
            if len(stored) == min(size, MOST_OUTPUT):
                return stored.decode(errors="replace")
    return None


def _last_lines(text: str, output_chars: int) -> str:
    """Returns the last lines, or all of them where nothing is cut."""
    lines = text.rstrip().split("\n")
    if output_chars > SHOWN or len(lines) <= LAST_LINES:
        return "\n".join(lines)
    return "\n".join([f"... {len(lines) - LAST_LINES} lines not shown (--full shows them) ...", *lines[-LAST_LINES:]])


def _show_verdict(verdict: Verdict, when: str = "") -> None:
    marks = f"  marks: {', '.join(verdict.marks)}" if verdict.marks else ""
    style = {"pass": "green", "fail": "yellow"}.get(verdict.status, "red")
    score = "" if verdict.score is None else f" (score {verdict.score})"
    line = f"verdict {verdict.check}{when}: {verdict.status}{score} - {verdict.reason}{marks}"
    cited = f"  evidence {', '.join(verdict.evidence) or 'none'}; verifier {(verdict.verifier or '-')[:19]}"
    if verdict.kind == "outcome":
        cited += f"; separation {verdict.separation}"
    console().print(_block(line), style=style)
    console().print(_block(cited))


def _addendum_verdicts(trajectory: Trajectory, opened: RunStore) -> Iterator[tuple[int, Verdict]]:
    from assay.store import addenda

    if opened.is_sealed:
        for found in addenda(opened.layout.root, opened.run):
            for about, event in found.parts():
                if about == trajectory.chain and isinstance(event.body, VerdictAdded):
                    yield found.number, event.body.verdict


def _block(text: str) -> str:
    """Indents later lines, so that hostile text cannot imitate other output."""
    return plain(text).replace("\n", "\n    ")


def _step(step: Step, output_chars: int) -> str:
    actor = "" if step.actor_name is None else f" {step.actor_name}:"
    lines = [_block(f"[{step.index}]{actor} {_cut(step.message or '', output_chars)}".rstrip())]
    paired = pair_observations(step.tool_calls, step.observations)
    for call, observations in zip(step.tool_calls, paired, strict=True):
        lines.append(_block(f"  > {call.name} {_cut(call.arguments, output_chars)}"))
        for found in observations:
            code = "" if found.exit_code is None else f" (exit {found.exit_code})"
            text = _cut((found.content + found.stderr).rstrip(), output_chars)
            lines.append(_block("    " + (text or "(no output)")) + code)
    return "\n".join(lines)


def _changes(snapshot: Evidence, opened: RunStore) -> str:
    try:
        manifest = msgspec.json.decode(opened.blobs.get(str(snapshot.data["manifest"])), type=list[_Change])
    except (StoreError, msgspec.DecodeError) as exc:
        return plain(f"changed files: cannot be shown, {exc}").replace("\n", " ")
    files = [change for change in manifest if change.type != "directory"]
    lines = [f"  {change.kind:8} {change.path}" for change in files[:40]]
    more = [f"  ... and {len(files) - 40} more"] if len(files) > 40 else []
    head = f"changed files ({len(files)}), state {str(snapshot.data.get('digest'))[:19]}"
    return "\n".join(plain(line).replace("\n", "\\n") for line in (head, *lines, *more))


def _cut(text: str, output_chars: int) -> str:
    if len(text) <= output_chars:
        return text
    half = output_chars // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters not shown (--full shows them) ...\n{text[-half:]}"
