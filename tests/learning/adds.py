"""An agent that adds nothing once, and then what is missing."""

from __future__ import annotations

from assay.agents.interface import Attempt
from tests.rollout.agents import add


class Adds:
    name = "adds"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        for number, by in enumerate((0, 5, 5)):
            await attempt.act([add(by, f"c{number}")])
        attempt.finish("reached ten")
