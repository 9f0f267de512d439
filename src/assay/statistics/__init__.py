"""Estimates and intervals: pure functions over columns and rows. No file, no clock, no hidden randomness.

What was not observed is counted and bounded, never taken for a zero.
"""

from ._clustered import Clustering, clustering, hierarchical_bootstrap, mean_interval, task_bootstrap
from ._median import median_interval
from ._rates import Interval, pass_at_k, pass_hat_k, wilson
from ._summary import (
    AtK,
    Bounds,
    Estimate,
    GroupSummary,
    Outcome,
    TaskCount,
    count_by_task,
    summarise,
)

__all__ = [
    "AtK",
    "Bounds",
    "Clustering",
    "Estimate",
    "GroupSummary",
    "Interval",
    "Outcome",
    "TaskCount",
    "clustering",
    "count_by_task",
    "hierarchical_bootstrap",
    "mean_interval",
    "median_interval",
    "pass_at_k",
    "pass_hat_k",
    "summarise",
    "task_bootstrap",
    "wilson",
]
