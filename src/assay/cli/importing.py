"""`assay import`, `assay export` and `assay formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from assay.learning.export.config import TARGETS, WriteConfig
from assay.rollout.exchange.config import ImportConfig

from .options import takes_config
from .output import emit_json, plain, quantity, say
from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with

if TYPE_CHECKING:
    from assay.rollout.exchange.exporting import ExportReport
    from assay.rollout.exchange.importing import ImportReport

SHOWN, SHOWN_REMARKS = 50, 10


@takes_config(ImportConfig, arguments=("paths",))
def import_(config: ImportConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Imports runs from other tools' formats; importing the same again adds nothing.

    Detects formats by content, walks folders and opens archives. Unreadable entries are listed by file and place, the
    rest is imported, and the exit code is 1, or 2 where nothing was imported. A verdict of the source is stored as its
    claim, marked `imported`. A file of no known format is read by a mapping, which the error message drafts. After an
    interruption, repeat the command.

    Examples:

      assay import logs/2026-01-01_task.eval

      assay import jobs/ --run terminal-bench

      assay import session.jsonl --format codex

      assay import talks.json --map map.toml
    """
    from assay.rollout.exchange.importing import import_paths

    with _Line() as line:
        report = import_paths(
            config,
            settings_with(store),
            lambda p: line.show(
                f"{p.file}: {p.read:,} read, {p.known:,} there already, {p.unreadable:,} unreadable",
            ),
        )
    for what in report.unreadable[:SHOWN]:
        say(f"unreadable: {what.file}{', ' + what.place if what.place else ''}: {what.problem}")
    if report.unreadable_total > SHOWN:
        say(f"... and {report.unreadable_total - SHOWN:,} more (--json names the first thousand)")
    for what in report.remarks[:SHOWN_REMARKS]:
        say(f"note: {what.file}{', ' + what.place if what.place else ''}: {what.problem}")
    if report.remarks_total > SHOWN_REMARKS:
        say(f"... and {report.remarks_total - SHOWN_REMARKS:,} more notes (--json names the first thousand)")
    if as_json:
        emit_json(report)
    else:
        _sum_up(report)
    nothing = not report.read and not report.known
    raise typer.Exit(0 if not report.unreadable_total else 2 if nothing else 1)


def _sum_up(report: ImportReport) -> None:
    by_format = ", ".join(f"{count:,} {name}" for name, count in sorted(report.formats.items())) or "no trajectory"
    run = f"run {report.run}" if report.read or report.known else "no run was made"
    typer.echo(plain(f"{run}: {quantity(report.read, 'trajectory')} read, {report.known:,} there already, "
                     f"{report.unreadable_total:,} unreadable; "
                     f"{quantity(report.files, 'file')} ({by_format})"))  # fmt: skip
    if report.unrecognised_total:
        more = ", ..." * (report.unrecognised_total > 3)
        first = ", ".join(report.unrecognised[:3]) + more
        say(f"skipped, unknown format: {quantity(report.unrecognised_total, 'file')} ({first})")
        say("name one of them alone to get a mapping by which --map reads it")
    if report.links:
        say(f"not followed: {quantity(report.links, 'link')}; name their targets")
    if report.redacted:
        say(f"redacted before storage: {', '.join(report.redacted)}")
    if report.read:
        say(f"next: assay stats {report.run}; assay audit {report.run}")


@takes_config(WriteConfig, arguments=())
def export(
    config: WriteConfig, run: RunArgument = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Exports a run to another format or to training rows; losses are listed in OUT.losses.json.

    The last trial of each attempt is written, with the verdicts added since. A doubtful pass is marked in the target's
    own field where it has one, left out of formats for training, and named in the list of losses. Formats for training
    refuse a run whose hash chain is broken, and tokens that are not certified.

    Examples:

      assay export RUN --to atif --out trajectories/

      assay export RUN --to chat --out rows.jsonl

      assay export RUN --to trl-sft --out sft.parquet --model checkpoints/base --rendered

      assay export RUN --to prime-rl --out step/ --credit gigpo
    """
    from assay.learning.export.exporting import export_for_training
    from assay.rollout.exchange.exporting import export_run

    settings = settings_with(store)
    with _Line() as line:
        name, told = pick_run(run, settings), lambda n: line.show(f"{n:,} written")
        if config.to in TARGETS:
            report = export_for_training(name, config, settings, told)
        else:
            report = export_run(name, config.as_format(), settings, told)
    if as_json:
        emit_json(report)
    else:
        _print_export(report)


def _print_export(report: ExportReport) -> None:
    what = "example" if report.format in TARGETS else "trajectory"
    typer.echo(plain(f"{quantity(report.written, what)} of {report.run} as {report.format}: {report.out}"))
    lost = ", ".join(f"{field} ({count:,})" for field, count in sorted(report.losses.items()))
    say(f"lost: {lost}; listed in {report.sidecar}" if lost else f"nothing was lost ({report.sidecar})")
    if report.additions:
        say(f"added beyond the records: {', '.join(report.additions)}")
    if report.doubted:
        marked = "marked so in the list, and in the target where it has a field"
        say(f"doubted: {quantity(len(report.doubted), 'pass')}, {marked}: {', '.join(report.doubted[:5])}")
    if report.secret:
        say(
            f"left out, because a secret is in it: {quantity(len(report.secret), 'attempt')} "
            f"({', '.join(report.secret[:5])}); the list names it, --with-secrets writes them"
        )
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.unaudited:
        say(f"never audited: {quantity(report.unaudited, 'pass')}; assay audit {report.run}")


def formats(as_json: JsonOption = False) -> None:
    """Lists the import and export formats, with the data that each reader was tested on.

    `recorded`: logs that others recorded. `peer`: files that the peer's own program wrote. `specification`: the
    published description alone.

    Examples:

      assay formats

      assay formats --json
    """
    from assay.formats.registry import list_formats

    found = list_formats()
    if as_json:
        emit_json([one._asdict() for one in found])
        return
    width = max(len(one.name) for one in found)
    for one in found:
        directions = "in, out" if one.writes else "in"
        typer.echo(f"{one.name:{width}}  {directions:7}  {one.provenance:13}  {one.title}")


class _Line:
    """A progress line on stderr that is overwritten; disabled without a terminal."""

    def __init__(self) -> None:
        import sys

        self._stream = sys.stderr
        self._live = sys.stderr.isatty()

    def __enter__(self) -> _Line:
        return self

    def show(self, text: str) -> None:
        """Shows the progress."""
        if self._live:
            self._stream.write(f"\r\x1b[K{plain(text)[:200]}")
            self._stream.flush()

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
