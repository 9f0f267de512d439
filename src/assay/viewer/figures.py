"""The view of a run's figures: bars, fronts, grids, reliability and survival, as plain numbers.

Invariant: rows left out to keep a figure readable are counted in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.analysis.columns import MEASURES, AttemptMeasures, measure_attempts
from assay.errors import UserError
from assay.statistics import (
    AttemptOutcome,
    Estimate,
    SurvivalPoint,
    TaskCount,
    TaskProfile,
    build_grid,
    count_by_task,
    estimate_at_k,
    estimate_pass_rate,
    find_flakes,
    outcome_consistency,
    profile_tasks,
    report_card,
    summarise_spending,
    survival_curve,
)
from assay.store import RunStore, final_rows

from .interface import Fields, View, json_bytes, run_view_name
from .judged_rows import read_judged_rows

MOST_CONFIGURATIONS = 16
MOST_TASKS = 120
"""Rows of the map of tasks, the most informative first."""
MOST_POINTS = 160
MOST_FLAKES = 200
MOST_SCORES = 4
LONGEST = 200
KS = (1, 2, 4, 8)

Who = tuple[str, str | None]


def figures(root: Path, run: str) -> dict[str, Any]:
    """Returns all figures of a run, by configuration (an agent with a model), the most attempts first.

    Raises:
        StoreError: The run is missing or damaged.
        ValueError: Its attempts contradict each other, or hold invalid amounts.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        every, stands = read_judged_rows(store)
    rows = final_rows(every)
    attempts = measure_attempts(rows, stands)
    shown = [who for who, _ in Counter(map(_configuration_of, attempts)).most_common()]
    chosen = set(shown[:MOST_CONFIGURATIONS])
    mine, labels = [one for one in attempts if _configuration_of(one) in chosen], _Labels(chosen)
    counts = count_by_task(one.outcome for one in mine)
    return {
        "run": run,
        "attempts": len(attempts),
        "left_out": len(shown) - len(chosen),
        "rates": _rates(counts, labels),
        "spending": _spending(mine, labels),
        "grid": _grid(mine),
        "tasks": _tasks(counts, labels),
        "flakes": _flakes(mine, counts, labels),
        "scores": _scores(mine),
        "survival": _survival(mine, labels),
    }


def _configuration_of(one: AttemptMeasures) -> Who:
    return one.outcome.agent, one.outcome.model


class _Labels:
    """Labels of configurations, without the part that all share."""

    def __init__(self, every: Iterable[Who]) -> None:
        given = set(every)
        self._agents = len({agent for agent, _ in given}) > 1
        self._models = len({model for _, model in given}) > 1

    def __call__(self, agent: str, model: str | None) -> str:
        by_model = self._models or (not self._agents and model is not None)
        parts = [agent] * (self._agents or not by_model) + [model or "no model"] * by_model
        return " · ".join(parts)[:LONGEST]


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "method": estimate.method}


def _by_who(counts: Iterable[TaskCount]) -> dict[Who, list[TaskCount]]:
    found: defaultdict[Who, list[TaskCount]] = defaultdict(list)
    for count in counts:
        found[count.agent, count.model].append(count)
    return found


def _rates(counts: Sequence[TaskCount], labels: _Labels) -> list[dict[str, Any]]:
    found = []
    for who, mine in _by_who(counts).items():
        most, judged = max(count.judged for count in mine), sum(count.judged > 0 for count in mine)
        reach = [estimate_at_k(mine, k) for k in KS if 1 < k <= most]
        sums = {name: sum(getattr(count, name) for count in mine) for name in _COUNTED}
        found.append(
            {
                "name": labels(*who),
                "tasks": len(mine),
                **sums,
                "pass_at_1": _estimate(estimate_pass_rate(mine)),
                "consistency": _estimate(outcome_consistency(mine)),
                # Fewer tasks than half would make it a number of other tasks.
                "at_k": [
                    {
                        "k": one.k,
                        "pass_at_k": _estimate(one.pass_at_k),
                        "pass_hat_k": _estimate(one.pass_hat_k),
                    }
                    for one in reach
                    if 2 * one.pass_at_k.n_tasks >= judged
                ],
            }
        )
    return found


_COUNTED = ("passed", "doubtful", "failed", "unknown", "error")


def _spending(attempts: Sequence[AttemptMeasures], labels: _Labels) -> dict[str, Any]:
    found = summarise_spending([(one.outcome, one.used) for one in attempts], tuple(MEASURES))
    points = [
        {
            "name": labels(one.agent, one.model),
            "measure": amount.measure,
            "pass_at_1": _estimate(one.pass_at_1),
            "mean": _estimate(amount.mean),
            "median": amount.median,
            "total": amount.total,
            "per_pass": amount.per_pass,
            "missing": amount.missing,
            "on_front": amount.on_front,
        }
        for one in found
        for amount in one.amounts
    ]
    used = [name for name in MEASURES if any(point["measure"] == name for point in points)]
    return {"measures": {name: MEASURES[name] for name in used}, "points": points}


def _grid(attempts: Sequence[AttemptMeasures]) -> dict[str, Any]:
    factors = {
        "agent": [one.outcome.agent for one in attempts],
        "model": [one.outcome.model or "-" for one in attempts],
    }
    table = build_grid([one.outcome for one in attempts], factors)
    cells = [
        {
            "agent": c.levels[0][:LONGEST],
            "model": c.levels[1][:LONGEST],
            "attempts": c.attempts,
            **_estimate(c.pass_at_1),
        }
        for c in table.cells
    ]
    parts = [{"name": part.name, "levels": part.levels, "share": part.share} for part in table.components]
    return {
        "agents": [name[:LONGEST] for name in table.levels[0]],
        "models": [name[:LONGEST] for name in table.levels[1]],
        "cells": cells,
        "components": parts,
    }


def _tasks(counts: Sequence[TaskCount], labels: _Labels) -> dict[str, Any]:
    """Returns a map of tasks by configurations, and the number of tasks in each band."""
    every = profile_tasks(counts)
    wanted = sorted(every, key=_informativeness)[:MOST_TASKS]
    rows = sorted(wanted, key=lambda one: (one.rate, one.task))
    columns = sorted(_by_who(counts), key=lambda who: (who[0], who[1] or ""))
    cells = {(count.task, count.agent, count.model): (count.passed, count.judged) for count in counts}
    return {
        "bands": dict(Counter(one.band for one in every)),
        "configurations": [labels(*who) for who in columns],
        "left_out": len(every) - len(rows),
        "rows": [
            {
                "task": one.task[:LONGEST],
                "attempts": one.attempts,
                "rate": one.rate,
                "interval": one.interval,
                "band": one.band,
                "discrimination": one.discrimination,
                "contrast": one.contrast,
                "cells": [cells.get((one.task, *who)) for who in columns],
            }
            for one in rows
        ],
    }


def _informativeness(one: TaskProfile) -> tuple[float, float, str]:
    """Returns a sort key: tasks with mixed results first."""
    return -one.rate * (1 - one.rate), -one.attempts, one.task


def _flakes(attempts: Sequence[AttemptMeasures], counts: Sequence[TaskCount], labels: _Labels) -> dict[str, Any]:
    differed = [one.outcome for one in attempts if one.reverified in ("disagree", "flaky")]
    found = find_flakes(counts, Counter((one.agent, one.model, one.task) for one in differed))
    rows = [
        {
            "task": one.task[:LONGEST],
            "name": labels(one.agent, one.model),
            "passed": one.passed,
            "judged": one.judged,
            "verifier": one.verifier,
        }
        for one in found[:MOST_FLAKES]
    ]
    return {"rows": rows, "left_out": len(found) - len(rows)}


def _scores(attempts: Sequence[AttemptMeasures]) -> list[dict[str, Any]]:
    """Returns report cards of process scores, for the most frequent checks."""
    judged = [one for one in attempts if one.outcome.status in ("pass", "fail")]
    checks = Counter(name for one in judged for name in one.scores)
    found = []
    for name, _ in checks.most_common(MOST_SCORES):
        scored = [one for one in judged if 0 <= one.scores.get(name, -1.0) <= 1]
        if scored:
            good = [_is_good(one.outcome) for one in scored]
            card = report_card([one.scores[name] for one in scored], good, [one.outcome.task for one in scored])
            found.append({"check": name[:LONGEST], **msgspec.to_builtins(card)})
    return found


def _is_good(outcome: AttemptOutcome) -> bool:
    return outcome.status == "pass" and not outcome.doubtful


def _survival(attempts: Sequence[AttemptMeasures], labels: _Labels) -> list[dict[str, Any]]:
    """Returns each configuration's curve of unsolved attempts, for each measure."""
    groups: defaultdict[Who, list[AttemptMeasures]] = defaultdict(list)
    for one in attempts:
        groups[_configuration_of(one)].append(one)
    found = []
    for measure in MEASURES:
        curves = []
        for who in sorted(groups, key=lambda who: (who[0], who[1] or "")):
            known = [one for one in groups[who] if measure in one.used]
            if any(_is_good(one.outcome) for one in known):
                lengths = [one.used[measure] for one in known]
                points = survival_curve(lengths, [_is_good(one.outcome) for one in known])
                curves.append(
                    {
                        "name": labels(*who),
                        "attempts": len(known),
                        "missing": len(groups[who]) - len(known),
                        "end": max(lengths),
                        "points": [[point.at, round(point.share, 5), point.at_risk] for point in _thin_points(points)],
                    }
                )
        if curves:
            found.append({"measure": measure, "unit": MEASURES[measure], "curves": curves})
    return found


def _thin_points(points: Sequence[SurvivalPoint]) -> list[SurvivalPoint]:
    """Thins points to `MOST_POINTS`, keeping the first and the last."""
    if len(points) <= MOST_POINTS:
        return list(points)
    step = (len(points) - 1) / (MOST_POINTS - 1)
    return [points[round(place * step)] for place in range(MOST_POINTS)]


def _make(root: Path, fields: Fields) -> bytes:
    try:
        return json_bytes(figures(root, fields["run"]))
    except ValueError as exc:
        raise UserError(f"these attempts cannot be drawn: {exc}") from exc


VIEWS = (View("run/{run}/figures", _make, run_view_name("figures")),)
