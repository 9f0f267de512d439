"""A file with one agent."""

from __future__ import annotations

from tests.rollout.agents import Solver


class OnlySolver(Solver):
    """The agent of the file."""
