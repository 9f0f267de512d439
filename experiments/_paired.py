"""The row of an arm beside another one at the same tasks, as the tables of experiments print it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from assay.statistics import difference_interval


def arm_cells(arm: Sequence[Sequence[float]], base: Sequence[Sequence[float]] | None) -> str:
    """Returns mean, range over seeds, and gain over the base arm with its interval over tasks; `-` without a base.

    Args:
        arm: Outcomes, a list for each seed.
        base: Outcomes of the base arm at the same tasks, in the same order.
    """
    rates = [fmean(one) for one in arm]
    gain = "-"
    if base is not None:
        gains = [b - a for ones, others in zip(base, arm, strict=True) for a, b in zip(ones, others, strict=True)]
        interval = difference_interval(gains)
        ends = "" if interval is None else f" [{interval.low:+.3f}, {interval.high:+.3f}]"
        gain = f"{fmean(gains):+.3f}{ends}"
    return f"{fmean(rates):.3f} | {min(rates):.2f} to {max(rates):.2f} | {gain}"
