"""Every number is written in characters that are digits for one function and none for the next."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._answers import Confusion, needs_answer
from ._confusing import answer_with
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_VALUE = Confusion(text="\u0663\u00b2", json='"\\u0663\\u00b2"')


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    await answer_with(attempt, knowledge, _VALUE, python='"\u0663\u00b2"')


CHEAT = Cheat(
    name="unicode-digits",
    exploits="The verifier checks that an answer is made of digits, and passes where it cannot be read as a number.",
    incident="none known",
    act=_act,
    closed_by=("errors while reading an answer are failures", "digits checked to be ASCII"),
    applies=needs_answer,
)
