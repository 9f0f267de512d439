"""`assay curate`: attempts worth learning from, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from assay.learning.curation.config import CurateConfig

from .options import takes_config
from .output import emit_json, plain, quantity, say
from .shared import JsonOption, StoreOption, pick_runs, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.learning.curation.config import CurateReport, RecoveryOutcome

SHOWN = 50


@takes_config(CurateConfig, arguments=("runs",))
def curate(config: CurateConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Selects attempts of runs for training and writes them, with a reason for each attempt.

    Stages (described in docs/how-to/curate.md): verdicts, density, recovery, efficiency, contrast,
    difficulty, duplicates, leakage, diversity, teacher, mixture, and your own as module:function. OUT/decisions.jsonl
    has a line for every attempt. Runs are used only if their chains verify.

    Examples:

      assay curate my-run --out selected

      assay curate a b --where verdicts:need_integrity=true --where diversity:most=4 --out selected

      assay curate a --where verdicts --where leakage --held-out tests/tasks --out selected

      assay curate a --where verdicts:outcome=fail --recover oracle --out lessons
    """
    from assay.learning.curation.curate import curate as select_from

    settings = settings_with(store)
    config = msgspec.structs.replace(config, runs=pick_runs(config.runs, settings))
    report = select_from(config, settings, say)
    if as_json:
        emit_json(report)
        return
    _print(report)


def _print(report: CurateReport) -> None:
    import typer

    rows = []
    for name, saw, kept in report.stages:
        rows.append({"stage": name, "saw": f"{saw:,}", "kept": f"{kept:,}", "left out": f"{saw - kept:,}"})
    print_rows(rows, empty="no stage was given: all is kept")
    typer.echo(
        plain(
            f"{report.kept:,} of {quantity(report.attempts, 'attempt')} kept: {report.out} (decisions.jsonl says why)"
        )
    )
    if report.lessons:
        said = ", ".join(f"{count:,} {kind}" for kind, count in report.lessons.items())
        typer.echo(plain(f"of failed attempts: {said}"))
    if report.recovered:
        print_rows([_recovery_cells(one) for one in report.recovered[:SHOWN]])
    if len(report.recovered) > SHOWN:
        typer.echo(f"... and {len(report.recovered) - SHOWN:,} more (--json and manifest.json list all)")
    for reason, count in report.not_written.items():
        say(f"{count:,} not written: {reason}")


def _recovery_cells(one: RecoveryOutcome) -> dict[str, str]:
    written = [*one.lessons, *(["pair"] if one.pair else [])]
    return {"failed attempt": one.attempt, "written": ", ".join(written) or "-", "result": one.why}
