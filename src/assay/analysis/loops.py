"""Detection of loops in an attempt.

A loop is a sequence of 1 to 8 acts repeated at once, at least two rounds (three for a single act). It is `stuck` if
every round had the same outcomes and, if recorded, the same output. Acts are compared by tool, command or arguments,
and file; not by stage, which depends on the position.

Ours; loops of AgentLens and of the triage paper (arXiv 2604.00356) ignore the output. Misleading: waiting for a server
is a useful loop; numbers are removed from the output, so a loop whose numbers show progress counts as stuck.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from .interface import Action
from .outcomes import outcome_of
from .states import states_of

__all__ = ["Loop", "loops_of"]

_LONGEST = 8
_SINGLE = 3
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_COMPARED = 4000


class Loop(msgspec.Struct, frozen=True):
    """Rounds of the same acts."""

    start: int
    """Position of the first act."""
    length: int
    """Acts per round."""
    rounds: int
    stuck: bool
    """True if each round had the same result as the first."""


def loops_of(actions: Sequence[Action]) -> tuple[Loop, ...]:
    """Returns the non-overlapping loops of an attempt, in order; at each position the one that covers the most acts."""
    acts = [(state.tool, state.what, state.file, state.lines) for state in states_of(actions)]
    seen = [(outcome_of(action), _NUMBERS.sub("0", (action.observation or "")[:_COMPARED])) for action in actions]
    found: list[Loop] = []
    at = 0
    while at < len(acts):
        best: tuple[int, int] | None = None
        for length in range(1, _LONGEST + 1):
            rounds = 1
            while acts[at + rounds * length : at + (rounds + 1) * length] == acts[at : at + length]:
                rounds += 1
            enough = rounds >= (_SINGLE if length == 1 else 2)
            if enough and (best is None or rounds * length > best[0] * best[1]):
                best = (length, rounds)
        if best is None:
            at += 1
            continue
        length, rounds = best
        came = [seen[at + n * length : at + (n + 1) * length] for n in range(rounds)]
        found.append(Loop(at, length, rounds, all(each == came[0] for each in came)))
        at += length * rounds
    return tuple(found)
