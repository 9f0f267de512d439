"""The agent that does nothing: what a task pays for no work at all. A sound verifier fails it."""

from __future__ import annotations

from .interface import Attempt

__all__ = ["NullAgent"]


class NullAgent:
    """Does nothing and says so."""

    name = "null"
    needs_model = False
    attempts_task = False

    async def run(self, attempt: Attempt) -> None:
        attempt.finish("did nothing")
