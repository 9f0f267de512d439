"""Plans, schedules, runs and resumes attempts. The only package that writes a run to the store."""

from assay.rollout.attempt.trial import TrialResult
from assay.rollout.rejudge.reverify import ReverificationResult, ReverifyConfig, ReverifyReport, reverify

from .config import RunConfig, to_toml
from .plan import PlannedAttempt
from .progress import Progress, Tally
from .runs import RunParts, RunSummary, require_finished, resume_run, start_run

__all__ = [
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
    "require_finished",
    "resume_run",
    "reverify",
    "start_run",
    "to_toml",
]
