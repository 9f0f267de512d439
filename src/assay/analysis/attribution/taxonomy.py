"""Failure modes of AgentErrorTaxonomy (arXiv 2509.25370): five modules, each with its modes.

The names are the published ones; the mapping of signs (`signs`) to them is ours.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Module = Literal["memory", "reflection", "planning", "action", "system", "others"]
MODES: Final[dict[Module, tuple[str, ...]]] = {
    "memory": ("over_simplification", "memory_retrieval_failure", "hallucination"),
    "reflection": ("progress_misjudge", "outcome_misinterpretation", "causal_misattribution", "hallucination"),
    "planning": ("constraint_ignorance", "impossible_action", "inefficient_plan"),
    "action": ("misalignment", "invalid_action", "format_error", "parameter_error"),
    "system": ("step_limit", "tool_execution_error", "llm_limit", "environment_error"),
    "others": ("other",),
}


class Label(msgspec.Struct, frozen=True, order=True):
    """A module and one of its modes."""

    module: Module
    mode: str

    def __post_init__(self) -> None:
        """Rejects a mode of another module."""
        if self.mode not in MODES[self.module]:
            raise ValueError(f"{self.module} has no mode {self.mode!r}; it has {', '.join(MODES[self.module])}")
