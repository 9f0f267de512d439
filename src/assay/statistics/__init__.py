"""Estimates and intervals: pure functions over columns and rows. No file, no clock, no hidden randomness.

What was not observed is counted and bounded, never taken for a zero.
"""

from ._clustered import Clustering, clustering, hierarchical_bootstrap, mean_interval, task_bootstrap
from ._effects import Component, explained
from ._gate import GateRule, Ruling, decide
from ._items import TaskProfile, profiles
from ._median import median_interval
from ._multiple import benjamini_hochberg, holm
from ._paired import Flip, Paired, compare, difference_interval, sign_test
from ._pareto import pareto_front
from ._power import Design, attempts_needed, detectable, standard_error, tasks_needed
from ._prediction import (
    Bin,
    RankAgreement,
    ReportCard,
    area_under_curve,
    calibration,
    rank_agreement,
    report_card,
)
from ._rates import Interval, pass_at_k, pass_hat_k, wilson
from ._robust import Robustness, blind_replay_line, outcome_consistency, robustness
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
from ._survival import SurvivalPoint, survival

__all__ = [
    "AtK",
    "Bin",
    "Bounds",
    "Clustering",
    "Component",
    "Design",
    "Estimate",
    "Flip",
    "GateRule",
    "GroupSummary",
    "Interval",
    "Outcome",
    "Paired",
    "RankAgreement",
    "ReportCard",
    "Robustness",
    "Ruling",
    "SurvivalPoint",
    "TaskCount",
    "TaskProfile",
    "area_under_curve",
    "attempts_needed",
    "benjamini_hochberg",
    "blind_replay_line",
    "calibration",
    "clustering",
    "compare",
    "count_by_task",
    "decide",
    "detectable",
    "difference_interval",
    "explained",
    "hierarchical_bootstrap",
    "holm",
    "mean_interval",
    "median_interval",
    "outcome_consistency",
    "pareto_front",
    "pass_at_k",
    "pass_hat_k",
    "profiles",
    "rank_agreement",
    "report_card",
    "robustness",
    "sign_test",
    "standard_error",
    "summarise",
    "survival",
    "task_bootstrap",
    "tasks_needed",
    "wilson",
]
