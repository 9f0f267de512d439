"""Cells of tables that compare an arm with another one at the same tasks, as all experiments print them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from assay.statistics import difference_interval

__all__ = ["arm_cells", "mean_cell", "range_cell"]


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
