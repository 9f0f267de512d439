"""Plans, schedules, runs and resumes attempts. The only package that writes a run to the store."""

from assay.rollout.attempt.trial import TrialResult
from assay.rollout.rejudge.reverify import ReverificationResult, ReverifyConfig, ReverifyReport, reverify

from .config import RunConfig, to_toml
from .grid import GridCell, plan_grid, read_grid, run_grid
from .plan import PlannedAttempt
from .progress import Progress, Tally
from .runs import RunParts, RunSummary, require_finished, resume_run, start_run

__all__ = [
    "GridCell",
    "PlannedAttempt",
    "Progress",
    "ReverificationResult",
    "ReverifyConfig",
    "ReverifyReport",
    "RunConfig",
    "RunParts",
    "RunSummary",
    "Tally",
    "TrialResult",
    "plan_grid",
    "read_grid",
    "require_finished",
    "resume_run",
    "reverify",
    "run_grid",
    "start_run",
    "to_toml",
]
