"""Names by which tools call a measure of success, among the scores that they keep."""

from __future__ import annotations

from typing import Any

from assay.records import VerdictStatus

_OUTCOMES = {"correct", "correctness", "success", "successful", "solved", "resolved", "passed", "pass", "outcome",
             "reward", "accuracy", "task success", "task completion", "goal success"}  # fmt: skip


def is_outcome(name: Any) -> bool:
    """Returns whether a score's name says that it is about success.

    Of other scores (`toxicity`, `length`) nothing tells which end is good, so that they give no verdict.
    """
    return isinstance(name, str) and name.lower().replace("_", " ").removeprefix("is ") in _OUTCOMES


def status_of(value: Any) -> VerdictStatus:
    """Returns the status of a measure of success: a pass is true or 1, any other number from 0 on a fail."""
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        return "unknown"
    return "pass" if value == 1 else "fail"
