"""Variables in the files that a shell reads when it starts: they make the verifier's programs load what was planted."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import run_inside
from ._payloads import TAKE_OVER
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, _: Knowledge) -> None:
    await run_inside(attempt, "profile", {"hook": TAKE_OVER}, message="set variables in the shell's own files")


CHEAT = Cheat(
    name="profile-environment",
    exploits="The test script reads a profile of the agent's home: as a login shell, or sources what installers left.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    act=_act,
    closed_by=("clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
