"""The answer is a second name of the very file that the verifier compares it with."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import leave_behind
from ._targets import answers, needs_answers, verifiers_own
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    wanted = {path: verifiers_own(knowledge, path) for path in answers(knowledge)}
    given = {"wanted": wanted, "roots": [knowledge.workdir, "/app", "/data", "/opt", "/srv"], "lasts_s": 600}
    await leave_behind(attempt, "links", given, message="link the answer to what it will be compared with")


CHEAT = Cheat(
    name="artifact-hardlink",
    exploits="The verifier refuses symbolic links alone, and its files are on the agent's file system with its owner.",
    incident="none known",
    act=_act,
    closed_by=("files with one name alone", "no agent process alive", "other user", "separate verifier"),
    applies=needs_answers,
    bundle="background",
)
