"""Reward hacking rules: one family of exploits per file."""

from __future__ import annotations

from assay.analysis.subject import Rule

from . import answers, harness, history, leaks, network, tests_changed
from .history import commit_facts

__all__ = ["RULES", "commit_facts"]

RULES: tuple[Rule, ...] = (
    *history.RULES,
    *leaks.RULES,
    *tests_changed.RULES,
    *harness.RULES,
    *answers.RULES,
    *network.RULES,
)
"""All rules in the order of their findings."""
