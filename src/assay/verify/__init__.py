"""Checks that turn facts into verdicts."""

from .facts import judge_facts
from .interface import CheckInput, CheckResult, OutcomeCheck, WorldInput
from .outcome import JudgeRequest, WorldRequest, verify_outcome, verify_world
from .run_checks import CheckSource, RunChecks, build_checks

__all__ = [
    "CheckInput",
    "CheckResult",
    "CheckSource",
    "JudgeRequest",
    "OutcomeCheck",
    "RunChecks",
    "WorldInput",
    "WorldRequest",
    "build_checks",
    "judge_facts",
    "verify_outcome",
    "verify_world",
]
