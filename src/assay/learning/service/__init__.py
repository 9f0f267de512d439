"""A rollout service: trainers submit tasks over HTTP and get verified, credited training rows."""

from .config import BatchRequest, PolicyAsked, RolloutServiceConfig
from .serve import Served, serve_rollouts

__all__ = ["BatchRequest", "PolicyAsked", "RolloutServiceConfig", "Served", "serve_rollouts"]
