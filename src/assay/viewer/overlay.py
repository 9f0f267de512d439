"""The view of several runs over each other: rates with intervals, amounts, and tasks by runs.

Runs are read one after the other and reduced to counts, so that memory is that of the largest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.analysis.columns import MEASURES, measure_attempts
from assay.errors import UserError
from assay.statistics import TaskCount, count_by_task, estimate_pass_rate
from assay.store import RunStore, final_rows

from .interface import Fields, View, json_bytes, split_field
from .judged_rows import read_judged_rows
from .runs import created_at, current_state

MOST_RUNS: Final = 12
MOST_SERIES: Final = 24
"""Configurations (an agent with a model in a run), the first of each run first."""
MOST_TASKS: Final = 200
LONGEST: Final = 200


class _Series(NamedTuple):
    run: str
    agent: str
    model: str | None
    counts: tuple[TaskCount, ...]
    means: dict[str, float]
    """Mean amount of an attempt by measure, where every attempt knows it."""


def overlay_runs(root: Path, runs: Sequence[str]) -> dict[str, Any]:
    """Returns several runs for one page.

    Returns:
        `runs` (name, state, creation), `series` (each with its run, agent, model, counts, pass@1 over its own tasks and
        over the tasks that all series attempted), `common` (number of those), `tasks` (rows with a cell a series:
        passed and judged, or null), `left_out` (series and tasks), `measures`.

    Raises:
        UserError: There are too few or too many runs, or one cannot be summed up.
        StoreError: A run is missing or damaged.
    """
    chosen = tuple(dict.fromkeys(runs))
    if not 1 < len(chosen) <= MOST_RUNS:
        raise UserError(f"2 to {MOST_RUNS} runs can be laid over each other, not {len(chosen)}")
    described, series = [], []
    for run in chosen:
        created, found = _read_run(root, run)
        described.append({"run": run, "state": current_state(root, run), "created": created})
        series += found
    shown = series[:MOST_SERIES]
    common = set.intersection(*({count.task for count in one.counts} for one in shown)) if shown else set()
    return {
        "runs": described,
        "series": [_series_json(one, common) for one in shown],
        "common": len(common),
        "measures": {name: MEASURES[name] for name in MEASURES if any(name in one.means for one in shown)},
        "tasks": _task_rows(shown)[:MOST_TASKS],
        "left_out": {
            "series": len(series) - len(shown),
            "tasks": max(len({c.task for one in shown for c in one.counts}) - MOST_TASKS, 0),
        },
    }


def _read_run(root: Path, run: str) -> tuple[float | None, list[_Series]]:
    with RunStore.open(root, run) as store, store.snapshot():
        every, stands = read_judged_rows(store)
        created = created_at(store.manifest())
    try:
        measured = measure_attempts(final_rows(every), stands)
        counts = count_by_task(one.outcome for one in measured)
    except ValueError as exc:
        raise UserError(f"the attempts of run {run!r} cannot be summed up: {exc}") from exc
    found = []
    for agent, model in dict.fromkeys((count.agent, count.model) for count in counts):
        mine = [one.used for one in measured if (one.outcome.agent, one.outcome.model) == (agent, model)]
        own = tuple(count for count in counts if (count.agent, count.model) == (agent, model))
        found.append(_Series(run, agent, model, own, _mean_amounts(mine)))
    return created, found


def _mean_amounts(used: Sequence[Any]) -> dict[str, float]:
    known = [name for name in MEASURES if used and all(name in one for one in used)]
    return {name: sum(one[name] for one in used) / len(used) for name in known}


def _series_json(one: _Series, common: set[str]) -> dict[str, Any]:
    return {
        "run": one.run,
        "agent": one.agent[:LONGEST],
        "model": one.model and one.model[:LONGEST],
        "tasks": len(one.counts),
        "attempts": sum(count.attempts for count in one.counts),
        "doubtful": sum(count.doubtful for count in one.counts),
        "error": sum(count.error for count in one.counts),
        "rate": _rate(one.counts),
        "common": _rate(count for count in one.counts if count.task in common),
        "means": one.means,
    }


def _rate(counts: Iterable[TaskCount]) -> dict[str, Any] | None:
    listed = list(counts)
    if not listed:
        return None
    found = estimate_pass_rate(listed)
    return {"value": found.value, "low": found.low, "high": found.high}


def _task_rows(series: Sequence[_Series]) -> list[dict[str, Any]]:
    """Returns the tasks with a cell a series, those on which the series differ most first."""
    cells: dict[str, list[list[int] | None]] = {}
    for place, one in enumerate(series):
        for count in one.counts:
            cells.setdefault(count.task, [None] * len(series))[place] = [count.passed, count.judged]
    rows = [(_spread(row), task, row) for task, row in cells.items()]
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [{"task": task[:LONGEST], "cells": row} for _, task, row in rows]


def _spread(cells: Sequence[list[int] | None]) -> float:
    rates = [cell[0] / cell[1] for cell in cells if cell is not None and cell[1]]
    return max(rates) - min(rates) if rates else 0.0


def _make(root: Path, fields: Fields) -> bytes:
    return json_bytes(overlay_runs(root, split_field(fields["runs"])))


def _no_names(_: Path, __: str) -> tuple[str, ...]:
    return ()  # an export is of one run


VIEWS = (View("overlay/{runs+}", _make, _no_names),)
