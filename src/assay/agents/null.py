"""Agent that does nothing; a sound verifier fails it."""

from __future__ import annotations

from .interface import Attempt


class NullAgent:
    """Finishes immediately."""

    name = "null"
    needs_model = False
    attempts_task = False

    async def run(self, attempt: Attempt) -> None:
        attempt.finish("did nothing")
