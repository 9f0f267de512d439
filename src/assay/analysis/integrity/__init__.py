"""Reward hacking as a trajectory shows it: one family of exploits a file."""

from __future__ import annotations

from assay.analysis.subject import Rule

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = ()
"""All rules, in the order in which their findings are listed."""
