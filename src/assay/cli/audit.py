"""`assay audit`: judges stored trajectories on process, integrity and safety beside their outcome."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from assay.errors import UserError
from assay.rollout.audit.config import AuditConfig

from .options import takes_config
from .output import emit_json, quantity, say, sparse_lines
from .shared import JsonOption, StoreOption, pick_run, settings_with

if TYPE_CHECKING:
    from assay.rollout.audit.stored import AuditReport
    from assay.settings import Settings


@takes_config(AuditConfig, arguments=())
def audit(
    config: AuditConfig,
    target: Annotated[
        str | None,
        typer.Argument(help="Name of a run, or of an attempt of it; default: the newest run.", show_default=False),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="The attempt's run; default: the newest.")] = None,
    shape: Annotated[str, typer.Option("--format", help="text, markdown or json.")] = "text",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judges stored attempts by all rules, and shows one card for each: outcome, integrity, process, safety.

    Attempts at one task are judged together: what one attempt's output proves of a commit counts for all of them. The
    verdicts are added to the first ones and never replace them; repeating an audit adds nothing. From then on `ls`,
    `show`, `stats` and exports mark a pass that lacks integrity. Exits with 1 where an attempt lacks integrity or
    breaks a contract.

    Examples:

      assay audit

      assay audit my-run --contract safety.toml

      assay audit hello@0 --run my-run

      assay audit my-run --dry-run --json

      assay audit my-run --format markdown
    """
    if shape not in ("text", "markdown", "json"):
        raise UserError(f"unknown --format {shape!r}: use text, markdown or json")
    settings = settings_with(store)
    name, wanted = _target(target, run, settings)
    config = msgspec.structs.replace(config, attempt=(*config.attempt, *wanted))
    report = _run_audit(name, config, settings)
    _print(report, config, "json" if as_json else shape)  # type: ignore[arg-type]
    failed = any(card.integrity_failed or card.safety_failed for card in report.tasks)
    raise typer.Exit(1 if failed else 0)


def _run_audit(run: str, config: AuditConfig, settings: Settings) -> AuditReport:
    from assay.rollout.audit.stored import audit_run

    told = sparse_lines("attempts judged", every_s=5)
    if config.judge is None:
        return audit_run(settings.store, run, config, told)
    from assay.rollout.attempt.models import open_model

    return audit_run(settings.store, run, config, told, open_model(config.judge, settings))


def _target(target: str | None, run: str | None, settings: Settings) -> tuple[str, tuple[str, ...]]:
    from assay.store import list_runs

    if target is None or (run is None and target in list_runs(settings.store)):
        return pick_run(target or run, settings), ()
    return pick_run(run, settings), (target,)


def _print(report: AuditReport, config: AuditConfig, shape: Literal["text", "markdown", "json"]) -> None:
    from .cards import card_lines, markdown, print_cards, print_lines, print_tasks

    if shape == "json":
        emit_json(report)
        return
    if shape == "markdown":
        sys.stdout.write(markdown(report.tasks, report.cards))
    elif len(report.cards) == 1:
        print_lines(card_lines(report.cards[0]))
    else:
        print_cards(report.cards)
        if report.tasks:
            sys.stdout.write("\n")
            print_tasks(report.tasks)
    kept = "nothing was kept (--dry-run)" if config.dry_run else f"{report.added} new verdicts were kept"
    foreign = [card for card in report.cards if card.run != report.run]
    if foreign:
        say(
            f"warning: recorded in another run than {report.run}: {quantity(len(foreign), 'attempt')} "
            f"({foreign[0].attempt}: {foreign[0].run}); `assay verify {report.run}` tells more"
        )
    if report.discarded:
        say(f"discarded: {quantity(report.discarded, 'finding')} of the model, whose quotes are not in the record")
    say(f"run {report.run}: {quantity(len(report.cards), 'attempt')} judged in {report.seconds:.1f} s; {kept}")
