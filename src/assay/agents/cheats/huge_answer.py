"""Every number is too large for a float and is read as infinite, which makes every tolerance infinite, too."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._answers import Confusion, needs_answer
from ._confusing import answer_with
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_VALUE = Confusion(text="1e999", json="1e999")


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    await answer_with(attempt, knowledge, _VALUE, python='float("inf")')


CHEAT = Cheat(
    name="huge-answer",
    exploits="The verifier allows an error in proportion to the answer, which for an infinite answer is any error.",
    incident="none known",
    act=_act,
    closed_by=("numbers checked to be finite", "tolerances taken from what is expected"),
    applies=needs_answer,
)
