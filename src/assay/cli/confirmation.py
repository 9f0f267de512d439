"""Asks the user at the terminal to confirm a call that a contract guards."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from .output import plain

if TYPE_CHECKING:
    from assay.rollout.limits.contract_guards import Ask, Question

    from .live import Display

SHOWN = 600


def build_confirmation(display: Display) -> Ask | None:
    """Returns the prompt; None without a terminal, so that every guarded call is refused."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    one_at_a_time = asyncio.Lock()

    async def ask(question: Question) -> bool:
        async with one_at_a_time:
            with display.set_aside():
                return await asyncio.to_thread(_answer, question)

    return ask


def _answer(question: Question) -> bool:
    """Returns True only for an explicit yes. Escapes control characters in the agent's text."""
    lines = (
        f"The agent at {question.task} wants to call {question.tool} with",
        f"  {question.arguments[:SHOWN]}",
        f"Rule {question.rule}: {question.reason}",
        "Allow it? [y/N] ",
    )
    sys.stderr.write(plain("\n".join(lines)))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
