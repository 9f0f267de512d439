"""A rollout service: trainers submit tasks over HTTP and get verified, credited training rows."""

from .config import BatchRequest, PolicyRequest, RolloutServiceConfig
from .serve import ServiceAddress, serve_rollouts

__all__ = ["BatchRequest", "PolicyRequest", "RolloutServiceConfig", "ServiceAddress", "serve_rollouts"]
