"""Asks the person at the terminal about a call that a contract wants asked about."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from .output import plain

if TYPE_CHECKING:
    from assay.rollout.limits.contract_guards import Ask, Question

    from .live import Display

__all__ = ["build_confirmation"]

SHOWN = 600


def build_confirmation(display: Display) -> Ask | None:
    """Who answers; None where nobody can: then every such call is refused."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    one_at_a_time = asyncio.Lock()

    async def ask(question: Question) -> bool:
        async with one_at_a_time:
            with display.set_aside():
                return await asyncio.to_thread(_answer, question)

    return ask


def _answer(question: Question) -> bool:
    """Anything but a yes is a no; what the agent wrote cannot steer the terminal."""
    lines = (
        f"The agent at {question.task} wants to call {question.tool} with",
        f"  {question.arguments[:SHOWN]}",
        f"Rule {question.rule}: {question.reason}",
        "Allow it? [y/N] ",
    )
    sys.stderr.write(plain("\n".join(lines)))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
