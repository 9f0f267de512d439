"""Figures of the attempts that one training step learns from."""

from __future__ import annotations

from collections.abc import Sequence

from assay.learning.rows import TrainingRow
from assay.statistics import TaskCount, estimate_pass_rate


def success_share(rows: Sequence[TrainingRow]) -> float:
    """Returns the share of judged attempts that passed."""
    judged = {(row.run, row.chain): row.outcome == "pass" for row in rows if row.outcome in ("pass", "fail")}
    return sum(judged.values()) / max(1, len(judged))


def success_interval(rows: Sequence[TrainingRow]) -> dict[str, float]:
    """Returns the cluster-robust 95% interval of the share that `success_share` gives; empty where it is unknown."""
    judged = {(row.run, row.chain): (row.task, row.outcome) for row in rows if row.outcome in ("pass", "fail")}
    outcomes: dict[str, list[str]] = {}
    for task, outcome in judged.values():
        outcomes.setdefault(task, []).append(outcome)
    estimate = estimate_pass_rate(
        TaskCount("", None, task, each.count("pass"), each.count("fail"), 0, 0) for task, each in outcomes.items()
    )
    if estimate.low is None or estimate.high is None:
        return {}
    return {"success_low": estimate.low, "success_high": estimate.high}


def count_mixed_groups(rows: Sequence[TrainingRow]) -> int:
    """Counts groups with passes and failures, the only ones with a gradient."""
    outcomes: dict[str, set[str]] = {}
    for row in rows:
        if row.outcome in ("pass", "fail"):
            outcomes.setdefault(row.group, set()).add(row.outcome)
    return sum(len(seen) == 2 for seen in outcomes.values())
