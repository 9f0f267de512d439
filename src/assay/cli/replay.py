"""`assay replay`: executes recorded actions again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import typer

from assay.errors import UserError
from assay.rollout.rejudge.config import ReplayConfig

from .cluster import NodesOption, PlaceOption, TokenFileOption, read_placement
from .options import takes_config
from .output import console, emit_json, explain_interruption, plain, say
from .shared import JsonOption, StoreOption, pick_recorded, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.rollout.cluster.node_session import PlacedRunOptions
    from assay.rollout.rejudge.counterfactual import RewindResult
    from assay.rollout.rejudge.replay import ReplayReport, ReplayResult
    from assay.settings import Settings
    from assay.statistics import Interval

SHOWN = 40


@takes_config(ReplayConfig, arguments=("attempts",))
def replay(
    config: ReplayConfig,
    store: StoreOption = None,
    *,
    place: PlaceOption = None,
    nodes: NodesOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Executes the recorded actions of attempts in fresh environments and compares what they show, step by step.

    Compares every observation, the state after every step and the outcome, without volatile parts (times, temporary
    names, addresses: docs/reference/volatile.md). Reports the likely cause of the first divergence, found by replaying
    under other circumstances or marked as a guess. The replays are an ordinary run. Exits with 1 on a divergence.

    --from-each-prefix lets another agent continue from before each step, and reports the decisive step: the last one
    before which the task could still be won.

    --semi-online lets another agent act on the pages of verified attempts in a browser, without the site. An act that
    matches the record shows the recorded page; others are repaired by the recorded step, up to --patches times. Reports
    progress, success and their mean for each number of patches; `assay stats --table agreement` compares with live
    runs.

    --carry does the acts of attempts in a browser under other looks of the same site, on the elements that correspond
    to the recorded ones, and reports how many were matched and the outcome.

    Examples:

      assay replay hello@0

      assay replay --all --run my-run --json

      assay replay hello@0 --times 3 --no-experiments

      assay replay hello@0 --from-each-prefix --agent oracle

      assay replay --all --run experts --semi-online --agent expert --agent-option noise=0.2

      assay replay --all --run my-run --nodes 2

      assay replay --all --run experts --carry elements --tasks family:sites,n=20,theme=7 --check-version today
    """
    settings = settings_with(store)
    options = read_placement(place, nodes, token_file, settings)
    if options is not None and (config.from_each_prefix or config.semi_online):
        raise UserError("--from-each-prefix and --semi-online run on this machine: leave out --nodes and --place")
    with explain_interruption("Completed replays are stored as a run of their own; repeat the command for all"):
        _replay_attempts(config, settings, options, as_json=as_json)


def _replay_attempts(
    config: ReplayConfig, settings: Settings, options: PlacedRunOptions | None, *, as_json: bool
) -> None:
    run = pick_recorded(config.run, "replay", settings)
    if config.from_each_prefix:
        _rewind(run, config, settings, as_json=as_json)
        return
    if config.semi_online:
        _replay_semi_online(run, config, settings, as_json=as_json)
        return
    report = _run_replay(run, config, settings, options)
    if as_json:
        _emit(report)
    else:
        _print(report)
    if report.counts["differ"]:
        raise typer.Exit(1)


def _run_replay(run: str, config: ReplayConfig, settings: Settings, options: PlacedRunOptions | None) -> ReplayReport:
    from functools import partial

    from assay.rollout.rejudge.replay import replay as replay_run

    from .live import display

    with display() as progress:
        elsewhere = None
        if options is not None:
            from assay.rollout.replay_on_nodes import replay_on_nodes

            elsewhere = partial(replay_on_nodes, settings, options, progress)
        return asyncio.run(replay_run(run, config, settings, progress, elsewhere))


def _emit(report: ReplayReport) -> None:
    results = [{**msgspec.to_builtins(one), "agrees": one.agrees} for one in report.results]
    fields = {"run": report.run, "replay": report.replay, "counts": report.counts, "rate": report.rate}
    emit_json({**fields, "results": results})


def _print(report: ReplayReport) -> None:
    order = sorted(report.results, key=lambda one: (one.agrees, one.comparison is None))
    print_rows([_row(one) for one in order[:SHOWN]])
    if len(order) > SHOWN:
        console().print(f"... and {len(order) - SHOWN} more (--json lists all)")
    for one in [one for one in order if not one.agrees][:SHOWN]:
        for line in _explain_divergence(one):
            console().print(plain(line).replace("\n", "\n    "))
    counts, rate = report.counts, report.rate
    share = "" if rate is None else f": {rate:.1%} of what can be replayed agrees"
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    console().print(f"run {report.run}, replayed: {told}{share}")
    if any(one.replay for one in report.results):
        say(f"the replays are the run {report.replay}; next: assay show ATTEMPT --run {report.replay}")


def _row(one: ReplayResult) -> dict[str, str]:
    comparison = one.comparison
    cells = {"attempt": one.attempt, "agent": one.agent}
    if one.carried is not None:
        acts = f"{one.carried.matched} of {one.carried.acts} acts matched"
        verdict = "agrees" if one.agrees else "differs"
        return {**cells, "replay": verdict, "acts": acts, "outcome": _outcome_text(one.carried.outcome)}
    if comparison is None:
        return {**cells, "replay": "cannot", "steps": "-", "observations": "-", "states": "-", "outcome": "-"}
    same = comparison.exact + comparison.normalised
    return {
        **cells,
        "replay": "agrees" if one.agrees else "differs",
        "steps": f"{comparison.steps} ({comparison.forks} in forks)" if comparison.forks else str(comparison.steps),
        "observations": f"{same} of {comparison.observations}",
        "states": f"{comparison.same_states} of {comparison.states}",
        "outcome": _outcome_text(comparison.outcome),
    }


def _outcome_text(outcome: tuple[str | None, str | None]) -> str:
    before, now = outcome
    return f"{before or '-'}" if before == now else f"{before or '-'}, now {now or '-'}"


def _explain_divergence(one: ReplayResult) -> list[str]:
    comparison = one.comparison
    if comparison is None:
        problem = one.problem if one.carried is None else one.carried.problem
        return [f"{one.attempt}: {problem}"] if problem else []
    lines = []
    if comparison.first is not None:
        first = comparison.first
        call = "" if first.call is None else f", call {first.call}"
        lines.append(f"{one.attempt}: step {first.step}{call}: {first.field} differs")
        lines += [f"  was {first.before!r}", f"  is  {first.now!r}"]
        meant = [path.path for path in comparison.paths if not path.volatile]
        if meant:
            lines.append(f"  final states differ in {', '.join(meant[:5])}")
    if not comparison.same_outcome:
        lines.append(f"{one.attempt}: the outcome was {comparison.outcome[0]}, and is {comparison.outcome[1]}")
    if one.cause is not None:
        how = {"experiment": "found by experiment", "comparison": "seen in the records", "guess": "a guess"}
        lines.append(f"  likely cause: {one.cause.kind} ({how[one.cause.by]}): {one.cause.reason}")
    return lines


def _replay_semi_online(run: str, config: ReplayConfig, settings: Settings, *, as_json: bool) -> None:
    from assay.rollout.rejudge.semi_online import replay_semi_online

    from .live import display

    with display() as progress:
        report = asyncio.run(replay_semi_online(run, config, settings, progress))
    if as_json:
        emit_json(report)
        return
    rows = [
        {
            "patches": str(one.patches),
            "progress": _with_interval(one.progress, one.progress_interval),
            "success": _with_interval(one.success, one.success_interval),
            "score": f"{one.score:.3f}",
        }
        for one in report.scores
    ]
    print_rows(rows)
    problems = [one for one in report.results if one.problem is not None]
    for one in problems[:SHOWN]:
        console().print(plain(f"{one.attempt}: {one.problem}"))
    replayed = len(report.results) - len(problems)
    console().print(
        plain(f"{report.agent} on {replayed} recorded attempts of run {report.run}, strategy {report.strategy}")
    )
    say(f"the replays are the run {report.replay}; next: assay stats {report.replay} LIVE-RUN --table agreement")


def _with_interval(value: float, interval: Interval | None) -> str:
    return f"{value:.3f}" if interval is None else f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _rewind(run: str, config: ReplayConfig, settings: Settings, *, as_json: bool) -> None:
    from assay.rollout.rejudge.counterfactual import rewind_run

    from .live import display

    with display() as progress:
        found = asyncio.run(rewind_run(run, config, settings, progress))
    if as_json:
        emit_json({"run": run, "rewound": found})
        return
    for one in found:
        _print_rewound(one)


def _print_rewound(one: RewindResult) -> None:
    rows = [
        {
            "before step": str(outcome.prefix),
            "outcome": outcome.outcome or "-",
            "how": outcome.how,
            "note": plain(outcome.note or "").replace("\n", " ")[:100],
        }
        for outcome in one.outcomes
    ]
    console().print(plain(f"{one.attempt} (was {one.was or '-'}), with {one.agent} from before each step:"))
    print_rows(rows)
    console().print(one.summary)
    if one.attribution is not None:
        label = one.attribution.label
        console().print(plain(f"that step is of {one.attribution.who}; kind of error: {label.module}, {label.mode}"))
