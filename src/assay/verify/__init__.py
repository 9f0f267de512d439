"""Checks that turn facts into verdicts."""

from .facts import judge_facts
from .interface import CheckInput, CheckResult, OutcomeCheck
from .outcome import JudgeRequest, verify_outcome

__all__ = ["CheckInput", "CheckResult", "JudgeRequest", "OutcomeCheck", "judge_facts", "verify_outcome"]
