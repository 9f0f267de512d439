"""Estimates and intervals: pure functions over columns and rows. No file, no clock, no hidden randomness.

Unobserved outcomes are counted and bounded, never taken for zero.
"""

from ._clustered import Clustering, estimate_clustering, hierarchical_bootstrap, mean_interval, task_bootstrap
from ._effects import VarianceComponent, variance_components
from ._gate import GateDecision, GateRule, decide_gate
from ._grid import GridCell, RateGrid, build_grid
from ._holdout import HOLDOUT_LEVEL, HoldoutExhaustedError, LevelGrant, grant_level, spent_levels
from ._items import DifficultyBand, Flake, TaskProfile, find_flakes, profile_tasks
from ._paired import (
    Flip,
    PairedComparison,
    compare_paired,
    difference_interval,
    format_p_value,
    holm,
    sign_flip_test,
    sign_test,
)
from ._power import StudyDesign, attempts_needed, detectable_difference, standard_error, tasks_needed
from ._prediction import (
    CalibrationBin,
    ReportCard,
    area_under_curve,
    calibration_error,
    report_card,
)
from ._ranking import RankAgreement, predictive_validity, rank_agreement, split_halves
from ._rates import Interval, median_interval, pass_at_k, pass_hat_k, wilson
from ._robust import Robustness, blind_replay_line, measure_robustness, outcome_consistency
from ._sequential import SequentialLook, SequentialTest, TaskScore, score_tasks, spending_function
from ._spending import (
    Amount,
    Spending,
    SurvivalPoint,
    amount_interval,
    pareto_front,
    summarise_spending,
    survival_curve,
)
from ._summary import (
    AtK,
    AttemptOutcome,
    Estimate,
    GroupSummary,
    OutcomeBounds,
    TaskCount,
    count_by_task,
    estimate_at_k,
    estimate_pass_rate,
    summarise,
)

__all__ = [
    "HOLDOUT_LEVEL",
    "Amount",
    "AtK",
    "AttemptOutcome",
    "CalibrationBin",
    "Clustering",
    "DifficultyBand",
    "Estimate",
    "Flake",
    "Flip",
    "GateDecision",
    "GateRule",
    "GridCell",
    "GroupSummary",
    "HoldoutExhaustedError",
    "Interval",
    "LevelGrant",
    "OutcomeBounds",
    "PairedComparison",
    "RankAgreement",
    "RateGrid",
    "ReportCard",
    "Robustness",
    "SequentialLook",
    "SequentialTest",
    "Spending",
    "StudyDesign",
    "SurvivalPoint",
    "TaskCount",
    "TaskProfile",
    "TaskScore",
    "VarianceComponent",
    "amount_interval",
    "area_under_curve",
    "attempts_needed",
    "blind_replay_line",
    "build_grid",
    "calibration_error",
    "compare_paired",
    "count_by_task",
    "decide_gate",
    "detectable_difference",
    "difference_interval",
    "estimate_at_k",
    "estimate_clustering",
    "estimate_pass_rate",
    "find_flakes",
    "format_p_value",
    "grant_level",
    "hierarchical_bootstrap",
    "holm",
    "mean_interval",
    "measure_robustness",
    "median_interval",
    "outcome_consistency",
    "pareto_front",
    "pass_at_k",
    "pass_hat_k",
    "predictive_validity",
    "profile_tasks",
    "rank_agreement",
    "report_card",
    "score_tasks",
    "sign_flip_test",
    "sign_test",
    "spending_function",
    "spent_levels",
    "split_halves",
    "standard_error",
    "summarise",
    "summarise_spending",
    "survival_curve",
    "task_bootstrap",
    "tasks_needed",
    "variance_components",
    "wilson",
]
