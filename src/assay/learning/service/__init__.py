"""A rollout service: trainers submit tasks over HTTP and get verified, credited training rows.

Names are loaded on first use (PEP 562): the configuration is imported without the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.lazy_exports import lazy_getattr

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

__getattr__ = lazy_getattr(__name__, _EXPORTS)
