"""`assay alarm`: says at which step an error was made, from the steps so far alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from assay.rollout.audit.alarm_config import AlarmConfig

from .options import takes_config
from .output import console, emit_json, explain_interruption, plain, quantity, say
from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.analysis.attribution import AlarmScores
    from assay.rollout.audit.alarms import RunAlarm

_REASON = 100


@takes_config(AlarmConfig, arguments=())
def alarm(config: AlarmConfig, run: RunArgument = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Raises an alarm at the first step of each attempt that looks wrong: what, where and who.

    Each step is judged by what came before it alone, so that the same works while the run is written (--follow): signs
    of an error in words, calls and results, and rules of contracts that a step breaks. Where attempts carry labels of
    the decisive step, or passed, the alarms are scored against them. An alarm is a reason to look, never a verdict.
    Exits with 1 where one was raised.

    Examples:

      assay alarm my-run

      assay alarm my-run --follow --contract safety.toml

      assay alarm my-run --attempt hello@0 --every --json
    """
    from assay.rollout.audit.alarms import watch_run

    settings = settings_with(store)
    name = pick_run(run, settings)
    with explain_interruption("Nothing was written, and the run goes on"):
        report = watch_run(settings.store, name, config, _say_alarm if config.follow else lambda _: None)
    if as_json:
        emit_json(report)
    else:
        print_rows([_row(one) for one in report.alarms], empty="no alarm")
        if report.scores is not None:
            for line in _scores(report.scores):
                console().print(plain(line))
    say(f"run {name}: an alarm in {report.alarmed} of {quantity(report.attempts, 'attempt')}")
    raise typer.Exit(1 if report.alarmed else 0)


def _say_alarm(found: RunAlarm) -> None:
    one = found.alarm
    error = f"{one.label.module}: {one.label.mode}"
    say(f"{found.task}@{found.number}: step {one.step} by {one.who} ({error}): {one.reason}")


def _row(found: RunAlarm) -> dict[str, str]:
    one = found.alarm
    return {
        "attempt": f"{found.task}@{found.number}",
        "step": str(one.step),
        "who": one.who,
        "error": f"{one.label.module}: {one.label.mode}",
        "raised at": str(one.raised_at),
        "weight": f"{one.weight:.2f}",
        "reason": one.reason[:_REASON],
    }


def _scores(scores: AlarmScores) -> list[str]:
    found = []
    if scores.labelled:
        share, low, high = scores.exact_share
        found = [
            f"against {quantity(scores.labelled, 'label')}: right step {scores.exact} ({share:.3f} [{low:.3f}, "
            f"{high:.3f}]), before it {scores.before}, after it {scores.after}, no alarm {scores.missed}; "
            f"right actor {scores.right_actor}; Exact-F1 {scores.exact_f1:.3f}"
            + ("" if scores.mean_shift is None else f"; mean distance {scores.mean_shift:.2f} steps")
        ]
    if scores.passed:
        found.append(f"in passes: {scores.false_alarms} of {scores.passed} ({scores.false_alarms / scores.passed:.0%})")
    return found
