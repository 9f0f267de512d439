"""Plans, schedules, runs and resumes attempts. The only package that writes a run to the store.

Names are loaded on first use (PEP 562): a configuration is imported without what it configures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.lazy_exports import lazy_getattr

_EXPORTS = {
    "GridCell": "grid",
    "PlannedAttempt": "plan",
    "Progress": "progress",
    "ReverificationResult": "rejudge.reverify",
    "ReverifyConfig": "rejudge.config",
    "ReverifyReport": "rejudge.reverify",
    "RunConfig": "config",
    "RunParts": "runs",
    "RunSummary": "runs",
    "Tally": "progress",
    "TrialResult": "attempt.trial",
    "plan_grid": "grid",
    "read_grid": "grid",
    "require_finished": "run_manifest",
    "resume_run": "runs",
    "reverify": "rejudge.reverify",
    "run_grid": "grid",
    "start_run": "runs",
    "to_toml": "config",
}

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

if TYPE_CHECKING:
    from assay.rollout.attempt.trial import TrialResult
    from assay.rollout.rejudge.config import ReverifyConfig
    from assay.rollout.rejudge.reverify import ReverificationResult, ReverifyReport, reverify

    from .config import RunConfig, to_toml
    from .grid import GridCell, plan_grid, read_grid, run_grid
    from .plan import PlannedAttempt
    from .progress import Progress, Tally
    from .run_manifest import require_finished
    from .runs import RunParts, RunSummary, resume_run, start_run

__getattr__ = lazy_getattr(__name__, _EXPORTS)
