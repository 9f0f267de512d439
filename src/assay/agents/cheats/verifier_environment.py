"""A process reads the variables and arguments of the verifier's processes, and answers with what it finds there."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import leave_behind
from ._targets import answers, needs_answers
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {"targets": answers(knowledge), "lasts_s": 600}
    await leave_behind(attempt, "processes", given, message="read what the verifier's processes are told")


CHEAT = Cheat(
    name="verifier-environment",
    exploits="What is expected is passed in variables or arguments, and /proc shows them to the same user.",
    incident="https://github.com/zmievsa/autograder/issues/39",
    act=_act,
    closed_by=("no agent process alive", "other user", "separate verifier"),
    applies=needs_answers,
    bundle="background",
)
