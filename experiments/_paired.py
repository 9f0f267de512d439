"""Cells of tables that compare an arm with another one at the same tasks, as all experiments print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from assay.statistics import difference_interval, mean_interval

__all__ = ["arm_cells", "gain_cells", "mean_cell", "range_cell", "rate_cell", "seed_gains", "task_means"]

BySeedAndTask = Mapping[tuple[int, str], float]


def mean_cell(differences: Sequence[float], scale: float = 1.0, digits: int = 3) -> str:
    """Returns the mean of paired differences with its 95% interval, as `+0.123 [+0.045, +0.201]`.

    Args:
        differences: One for each task (or attempt), in [-1, 1]; without an interval where there are too few.
        scale: Unit of the differences, for those of counts that were divided by their largest possible value.
        digits: After the decimal point.
    """
    interval = difference_interval(list(differences))
    shown = f"{fmean(differences) * scale:+.{digits}f}"
    if interval is None:
        return shown
    return f"{shown} [{interval.low * scale:+.{digits}f}, {interval.high * scale:+.{digits}f}]"


def range_cell(values: Sequence[float], sign: str = "+") -> str:
    """Returns the least and the greatest value, as `+0.05 to +0.20`."""
    return f"{min(values):{sign}.2f} to {max(values):{sign}.2f}"


def arm_cells(arm: Sequence[Sequence[float]], base: Sequence[Sequence[float]] | None) -> list[str]:
    """Returns mean, range over seeds, and gain over the base arm with its interval over tasks; `-` without a base.

    Args:
        arm: Outcomes, a list for each seed.
        base: Outcomes of the base arm at the same tasks, in the same order.
    """
    rates = [fmean(one) for one in arm]
    gain = "-"
    if base is not None:
        gain = mean_cell(
            [b - a for ones, others in zip(base, arm, strict=True) for a, b in zip(ones, others, strict=True)]
        )
    return [f"{fmean(rates):.3f}", range_cell(rates, ""), gain]


def rate_cell(values_by_task: Sequence[float]) -> str:
    """Returns the mean over tasks of values in [0, 1] with its 95% interval, as `0.415 [0.309, 0.530]`."""
    interval = mean_interval(values_by_task)
    ends = "" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{fmean(values_by_task):.3f}{ends}"


def task_means(values: BySeedAndTask) -> dict[str, float]:
    """Returns the mean over seeds of each task."""
    tasks: dict[str, list[float]] = {}
    for (_, task), value in values.items():
        tasks.setdefault(task, []).append(value)
    return {task: fmean(some) for task, some in tasks.items()}


def gain_cells(values: BySeedAndTask, base: BySeedAndTask) -> list[str]:
    """Returns the mean difference with its interval over tasks, and its range over seeds; `-` twice for the base."""
    if values is base:
        return ["-", "-"]
    one, other = task_means(values), task_means(base)
    return [mean_cell([one[task] - other[task] for task in one]), range_cell(seed_gains(values, base))]


def seed_gains(values: BySeedAndTask, base: BySeedAndTask) -> list[float]:
    """Returns the mean difference of each seed."""
    seeds = dict.fromkeys(seed for seed, _ in values)
    return [fmean(value - base[key] for key, value in values.items() if key[0] == seed) for seed in seeds]
