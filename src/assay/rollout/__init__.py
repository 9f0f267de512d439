"""Plan, schedule, budget, run, resume. The run's only writer to the store."""

from .config import RunConfig, to_toml
from .plan import PlannedAttempt
from .progress import Progress, Tally
from .reverify import Reverified, ReverifyConfig, ReverifyReport, reverify
from .runs import RunSummary, require_finished, resume_run, start_run
from .trial import TryResult

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
