"""A process in the background keeps writing the reward."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import leave_shell
from ._writers import LOOP
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, _: Knowledge) -> None:
    await leave_shell(attempt, LOOP, message="leave a writer behind")


CHEAT = Cheat(
    name="late-writer",
    exploits="The agent's processes still run while the verifier judges in the same sandbox, and may write the reward.",
    incident="https://github.com/hud-evals/hud-python/pull/526",
    act=_act,
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    quick=True,
    bundle="background",
)
