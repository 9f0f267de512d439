"""Assay turns any agent run into an environment-verified trajectory.

Names are loaded on first use (PEP 562), so that `import assay` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "AssayError": "assay.errors",
    "AttemptResult": "assay.api",
    "Limits": "assay.records",
    "ModelRequest": "assay.gateway.interface",
    "RunResult": "assay.api",
    "Store": "assay.api",
    "Task": "assay.records",
    "Trajectory": "assay.records",
    "UserError": "assay.errors",
    "Verdict": "assay.records",
    "agent": "assay.agents.functions",
    "arun": "assay.api",
    "check": "assay.verify.function_check",
    "init_task": "assay.tasks",
    "open": "assay.api:open_store",
    "run": "assay.api",
}
"""Public names: the module that holds each, with the name there where it differs."""

__all__ = [
    "AssayError",
    "AttemptResult",
    "Limits",
    "ModelRequest",
    "RunResult",
    "Store",
    "Task",
    "Trajectory",
    "UserError",
    "Verdict",
    "__version__",
    "agent",
    "arun",
    "check",
    "init_task",
    "open",
    "run",
]

if TYPE_CHECKING:
    from .agents.functions import agent
    from .api import AttemptResult, RunResult, Store, arun, run
    from .api import open_store as open
    from .errors import AssayError, UserError
    from .gateway.interface import ModelRequest
    from .records import Limits, Task, Trajectory, Verdict
    from .tasks import init_task
    from .verify.function_check import check


def __getattr__(name: str) -> Any:
    """Loads a public name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    module, _, attribute = _EXPORTS[name].partition(":")
    return getattr(import_module(module), attribute or name)
