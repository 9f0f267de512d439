"""The Python API: runs agents, opens stores, shows results. `import assay` offers its names.

Names are loaded on first use (PEP 562): the command line imports the tables here, and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_EXPORTS = {
    "AttemptResult": "results",
    "RunResult": "results",
    "Store": "stores",
    "ViewerHandle": "viewing",
    "arun": "running",
    "open_store": "stores",
    "run": "running",
}

__all__ = ["AttemptResult", "RunResult", "Store", "ViewerHandle", "arun", "open_store", "run"]

if TYPE_CHECKING:
    from .results import AttemptResult, RunResult
    from .running import arun, run
    from .stores import Store, open_store
    from .viewing import ViewerHandle


def __getattr__(name: str) -> Any:
    """Loads a public name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'assay.api' has no attribute {name!r}")
    return getattr(import_module(f"assay.api.{_EXPORTS[name]}"), name)
