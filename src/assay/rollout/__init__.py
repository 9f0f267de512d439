"""Plan, schedule, budget, run, resume. The run's only writer to the store."""

from assay.rollout.attempt.trial import TryResult
from assay.rollout.rejudge.reverify import Reverified, ReverifyConfig, ReverifyReport, reverify

from .config import RunConfig, to_toml
from .plan import PlannedAttempt
from .progress import Progress, Tally
from .runs import RunSummary, require_finished, resume_run, start_run

__all__ = [
    "PlannedAttempt",
    "Progress",
    "Reverified",
    "ReverifyConfig",
    "ReverifyReport",
    "RunConfig",
    "RunSummary",
    "Tally",
    "TryResult",
    "require_finished",
    "resume_run",
    "reverify",
    "start_run",
    "to_toml",
]
