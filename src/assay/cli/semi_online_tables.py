"""Tables of semi-online replays: their scores, and how well these agree with success on the live site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.analysis.semi_online import PREFIX, ReplayedSteps, is_on_recorded_pages, replayed_steps_of, score_replay
from assay.records import AttemptStarted
from assay.statistics import RankAgreement, cell_agreement, rank_agreement
from assay.store import RunStore, decode_body, final_rows

if TYPE_CHECKING:
    from assay.analysis.columns import AttemptMeasures

SEMI_ONLINE, AGREEMENT = "semi-online", "agreement"
Configuration = tuple[str, str, str]
"""Agent, model and options."""
Cells = dict[Configuration, dict[str, list[ReplayedSteps]]]
Rates = dict[Configuration, dict[str, float]]


class ReplayedAttempt(NamedTuple):
    """A semi-online replay."""

    configuration: Configuration
    task: str
    replayed: ReplayedSteps
    source: int
    """Position of its run, as `AttemptMeasures.source`."""


def is_replay_run(store: RunStore) -> bool:
    """Returns whether a run is a semi-online replay, by the record of its first attempt: replays are runs of their
    own."""
    row = next(iter(store.attempts()), None)
    started = None if row is None else decode_body(next(iter(store.part(row.chain, 0, 1))))
    return isinstance(started, AttemptStarted) and is_on_recorded_pages(started)


def read_replayed(root: Path, runs: Sequence[str], options: Sequence[str]) -> tuple[ReplayedAttempt, ...]:
    """Returns the semi-online replays of runs; `options` are the agent options of each."""
    found = []
    for source, (run, given) in enumerate(zip(runs, options, strict=True)):
        with RunStore.open(root, run) as store:
            rows = final_rows(store.attempts()) if is_replay_run(store) else []
            for row in rows:
                replayed = replayed_steps_of(store.trajectory(row.chain))
                if replayed is not None:
                    configuration = (row.agent.removeprefix(f"{PREFIX}+"), row.model or "-", given)
                    found.append(ReplayedAttempt(configuration, row.task, replayed, source))
    return tuple(found)


def semi_online(replays: Sequence[ReplayedAttempt], attempts: Iterable[AttemptMeasures], options: Sequence[str]) -> Any:
    """Returns, for each configuration and number of patches, the scores beside the live pass rate on the same tasks."""
    cells, live = _cells(replays), _live_rates(attempts, options, replays)
    found = []
    for configuration, by_task in sorted(cells.items()):
        rates = live.get(configuration, {})
        shared = [rates[task] for task in by_task if task in rates]
        for patches in range(_most(by_task) + 1):
            progress, success = _average_scores(by_task, patches)
            found.append(
                {
                    "agent": configuration[0],
                    "model": configuration[1],
                    "options": configuration[2],
                    "tasks": len(by_task),
                    "patches": patches,
                    "progress": progress,
                    "success": success,
                    "score": (progress + success) / 2,
                    "live": fmean(shared) if shared else None,
                    "live_tasks": len(shared),
                }
            )
    return found


def agreement(replays: Sequence[ReplayedAttempt], attempts: Iterable[AttemptMeasures], options: Sequence[str]) -> Any:
    """Returns, for each number of patches, the rank correlation of scores with live pass rates: over configurations,
    and over all pairs of configuration and task. Only tasks that every configuration was replayed and run at count."""
    cells, live = _cells(replays), _live_rates(attempts, options, replays)
    shared = sorted(cells.keys() & live.keys())
    if not shared:
        return []
    tasks = sorted(set.intersection(*(cells[one].keys() & live[one].keys() for one in shared)))
    if not tasks:
        return []
    rates = {repr(one): [live[one][task] for task in tasks] for one in shared}
    found = []
    for patches in range(min(_most(cells[one]) for one in shared) + 1):
        scores = {
            repr(one): [fmean(score_replay(r, patches).score for r in cells[one][task]) for task in tasks]
            for one in shared
        }
        sides = rank_agreement(scores, rates, paired=True), cell_agreement(scores, rates)
        found.append(
            {
                "patches": patches,
                "configurations": len(shared),
                "tasks": len(tasks),
                "over_configurations": sides[0],
                "over_cells": sides[1],
            }
        )
    return found


def _cells(replays: Iterable[ReplayedAttempt]) -> Cells:
    cells: Cells = {}
    for one in replays:
        cells.setdefault(one.configuration, {}).setdefault(one.task, []).append(one.replayed)
    return cells


def _live_rates(
    attempts: Iterable[AttemptMeasures], options: Sequence[str], replays: Iterable[ReplayedAttempt]
) -> Rates:
    replayed = {one.source for one in replays}
    outcomes: dict[Configuration, dict[str, list[bool]]] = {}
    for one in attempts:
        found = one.outcome
        if one.source in replayed or found.status not in ("pass", "fail"):
            continue
        configuration = (found.agent, found.model or "-", options[one.source])
        by_task = outcomes.setdefault(configuration, {})
        by_task.setdefault(found.task, []).append(found.status == "pass" and not found.doubtful)
    return {who: {task: fmean(passed) for task, passed in by_task.items()} for who, by_task in outcomes.items()}


def _most(by_task: dict[str, list[ReplayedSteps]]) -> int:
    return min(one.patches for several in by_task.values() for one in several)


def _average_scores(by_task: dict[str, list[ReplayedSteps]], patches: int) -> tuple[float, float]:
    scored = [[score_replay(one, patches) for one in several] for several in by_task.values()]
    return (
        fmean(fmean(one.progress for one in several) for several in scored),
        fmean(fmean(one.succeeded for one in several) for several in scored),
    )


def semi_online_rows(found: Any) -> list[dict[str, str]]:
    """Returns the printed rows of the scores."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"],
            "options": one["options"][:40],
            "tasks": str(one["tasks"]),
            "patches": str(one["patches"]),
            "progress": f"{one['progress']:.3f}",
            "success": f"{one['success']:.3f}",
            "score": f"{one['score']:.3f}",
            "live": "-" if one["live"] is None else f"{one['live']:.3f} ({one['live_tasks']} tasks)",
        }
        for one in found
    ]


def agreement_rows(found: Any) -> list[dict[str, str]]:
    """Returns the printed rows of the agreement."""
    return [
        {
            "patches": str(one["patches"]),
            "configurations": str(one["configurations"]),
            "tasks": str(one["tasks"]),
            "over configurations [95%]": _rank_text(one["over_configurations"]),
            "over configurations and tasks [95%]": _rank_text(one["over_cells"]),
        }
        for one in found
    ]


def _rank_text(found: RankAgreement) -> str:
    if found.value is None:
        return "-"
    ends = "" if found.interval is None else f" [{found.interval.low:.3f}, {found.interval.high:.3f}]"
    return f"{found.value:.3f}{ends}"
