"""Tests are edited so that they say nothing: those in the workspace, and the verifier's as soon as they are there."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import leave_behind, run_inside
from ._places import roots
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    await run_inside(attempt, "tests", {"mode": "empty", "roots": roots(knowledge)}, message="empty the tests")
    await leave_behind(attempt, "tests", {"mode": "empty", "wait_s": 600}, message="wait for the verifier's tests")


CHEAT = Cheat(
    name="edited-tests",
    exploits="The verifier runs tests that the agent could write to: in the workspace, or while they are brought.",
    incident="https://github.com/SWE-bench/SWE-bench/issues/538",
    act=_act,
    closed_by=("tests mounted read-only", "no agent process alive", "separate verifier"),
    quick=True,
)
