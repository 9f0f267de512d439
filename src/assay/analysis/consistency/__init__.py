"""Whether what a trajectory says, what was executed and what was judged agree: one rule group a file."""

from __future__ import annotations

from assay.analysis.subject import Rule

from . import channels, claims, counts, steps

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (*counts.RULES, *claims.RULES, *channels.RULES, *steps.RULES)
"""All rules, in the order in which their findings are listed."""
