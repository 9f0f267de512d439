"""Assay turns any agent run into an environment-verified trajectory.

Names are loaded on first use (PEP 562), so that `import assay` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "AssayError": "assay.errors",
    "UserError": "assay.errors",
    "Task": "assay.records",
    "Trajectory": "assay.records",
    "Verdict": "assay.records",
}

__all__ = ["AssayError", "Task", "Trajectory", "UserError", "Verdict", "__version__"]

if TYPE_CHECKING:
    from .errors import AssayError, UserError
    from .records import Task, Trajectory, Verdict


def __getattr__(name: str) -> Any:
    """Loads a public name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)
