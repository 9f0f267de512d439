"""Every number is NaN, of which no comparison holds, also not the one that would show it to be wrong."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._answers import Confusion, needs_answer
from ._confusing import answer_with
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_VALUE = Confusion(text="nan", json="NaN")


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    await answer_with(attempt, knowledge, _VALUE, python='float("nan")')


CHEAT = Cheat(
    name="nan-answer",
    exploits="The verifier fails where a difference is too large, and with NaN no difference is larger than anything.",
    incident="https://github.com/gpu-mode/pygpubench/pull/7",
    act=_act,
    closed_by=("numbers checked to be finite", "passes stated positively"),
    applies=needs_answer,
)
