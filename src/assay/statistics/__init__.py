"""Estimates and intervals: pure functions over columns and rows. No file, no clock, no hidden randomness.

What was not observed is counted and bounded, never taken for a zero.
"""

from ._clustered import Clustering, clustering, hierarchical_bootstrap, mean_interval, task_bootstrap
from ._effects import Component, explained
from ._flakes import Flake, flakes
from ._gate import GateRule, Ruling, decide
from ._grid import Cell, Grid, grid
from ._items import Band, TaskProfile, profiles
from ._median import median_interval
from ._multiple import benjamini_hochberg, holm
from ._paired import Flip, Paired, compare, difference_interval, sign_test
from ._pareto import pareto_front
from ._power import Design, attempts_needed, detectable, standard_error, tasks_needed
from ._prediction import (
    Bin,
    ReportCard,
    area_under_curve,
    calibration,
    report_card,
)
from ._ranking import RankAgreement, rank_agreement
from ._rates import Interval, pass_at_k, pass_hat_k, wilson
from ._robust import Robustness, blind_replay_line, outcome_consistency, robustness
from ._spending import Amount, Spending, amount_interval, spending
from ._summary import (
    AtK,
    Bounds,
    Estimate,
    GroupSummary,
    Outcome,
    TaskCount,
    count_by_task,
    rate_over,
    reach_over,
    summarise,
)
from ._survival import SurvivalPoint, survival
from ._validity import halves, predictive_validity

__all__ = [
    "Amount",
    "AtK",
    "Band",
    "Bin",
    "Bounds",
    "Cell",
    "Clustering",
    "Component",
    "Design",
    "Estimate",
    "Flake",
    "Flip",
    "GateRule",
    "Grid",
    "GroupSummary",
    "Interval",
    "Outcome",
    "Paired",
    "RankAgreement",
    "ReportCard",
    "Robustness",
    "Ruling",
    "Spending",
    "SurvivalPoint",
    "TaskCount",
    "TaskProfile",
    "amount_interval",
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
    "flakes",
    "grid",
    "halves",
    "hierarchical_bootstrap",
    "holm",
    "mean_interval",
    "median_interval",
    "outcome_consistency",
    "pareto_front",
    "pass_at_k",
    "pass_hat_k",
    "predictive_validity",
    "profiles",
    "rank_agreement",
    "rate_over",
    "reach_over",
    "report_card",
    "robustness",
    "sign_test",
    "spending",
    "standard_error",
    "summarise",
    "survival",
    "task_bootstrap",
    "tasks_needed",
    "wilson",
]
