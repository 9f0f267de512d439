"""Consistency rules over claims, executions and verdicts: one rule group per file."""

from __future__ import annotations

from assay.analysis.subject import Rule

from . import channels, claims, counts, steps

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (*counts.RULES, *claims.RULES, *channels.RULES, *steps.RULES)
"""All rules in the order of their findings."""
