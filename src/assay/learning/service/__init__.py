"""A rollout service: trainers submit tasks over HTTP and get verified, credited training rows.

Names are loaded on first use (PEP 562): the configuration is imported without the server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_EXPORTS = {
    "BatchRequest": "config",
    "PolicyRequest": "config",
    "RolloutServiceConfig": "service_config",
    "ServiceAddress": "serve",
    "serve_rollouts": "serve",
}

__all__ = ["BatchRequest", "PolicyRequest", "RolloutServiceConfig", "ServiceAddress", "serve_rollouts"]

if TYPE_CHECKING:
    from .config import BatchRequest, PolicyRequest
    from .serve import ServiceAddress, serve_rollouts
    from .service_config import RolloutServiceConfig


def __getattr__(name: str) -> Any:
    """Loads a public name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'assay.learning.service' has no attribute {name!r}")
    return getattr(import_module(f"assay.learning.service.{_EXPORTS[name]}"), name)
