"""The rule-driven solver as an agent of ordinary runs, with the composite tools of a skill.

It finds its calls in a world of its own with the task's parameters, and then makes them in the attempt's: an agent that
knows what it is about to do. With composite tools it makes every sequence of calls that one of them makes as one call.
"""

from __future__ import annotations

import msgspec

from assay.agents._skill_text import load_agent_skill
from assay.agents.composites import RecordedCall, fold_calls, parse_result
from assay.agents.interface import Attempt
from tests.synthesis.services.solver import solve


class SolverAgent:
    """Does what the solver does. Option: `skill` (folder)."""

    name = "rule-solver"
    needs_model = False

    def __init__(self, skill: str = "") -> None:
        self._skill = load_agent_skill(skill)

    async def run(self, attempt: Attempt) -> None:
        """Makes the solver's calls in the attempt."""
        made = [
            RecordedCall(0, call.name, call.parsed or {}, parse_result(seen.content), seen.error, changed=False)
            for call, seen in solve(attempt.task).calls
        ]
        tools = self._skill.tools if self._skill is not None else ()
        offered = self._skill.offer(attempt) if self._skill is not None else attempt
        for number, call in enumerate(fold_calls(tools, made)):
            await offered.act([msgspec.structs.replace(call, id=f"s{number}")])
            if attempt.ended is not None:
                return
        attempt.finish("everything that could be read was done")
