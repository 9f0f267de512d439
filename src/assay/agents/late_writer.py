"""Adversary that solves nothing and leaves a background process that keeps writing the reward.

It passes if verification runs in the agent's sandbox while its processes live; it fails if every process of the agent
is dead before a fresh fork is judged.
"""

from __future__ import annotations

from .cheats._writers import LOOP, quote_shell
from .interface import Attempt


class LateWriterAgent:
    """Starts the writer twice: as a background job, and double-forked in its own session."""

    name = "late-writer"
    needs_model = False
    attempts_task = False

    async def run(self, attempt: Attempt) -> None:
        await attempt.shell(f"( {LOOP} ) >/dev/null 2>&1 &", message="leave a writer behind")
        await attempt.shell(
            f"setsid sh -c {quote_shell(f'( {LOOP} ) >/dev/null 2>&1 &')} &", message="and one in its own session"
        )
        attempt.finish("left a process that writes reward 1 for ever")
