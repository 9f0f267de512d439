"""The reward is there before anybody judges."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._writers import ONCE
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

# Read-only, so that a verifier of the same user cannot write over it, and a folder in which nothing can be replaced.
_SCRIPT = f"mkdir -p /logs/verifier; {ONCE}; chmod 444 /logs/verifier/reward.*; chmod 555 /logs/verifier; true"


async def _act(attempt: Attempt, _: Knowledge) -> None:
    await attempt.shell(_SCRIPT, message="write the reward now")


CHEAT = Cheat(
    name="reward-preseeded",
    exploits="The verifier's folder is writable while the agent works and is not emptied before it is judged.",
    incident="https://github.com/harbor-framework/harbor/issues/2551",
    act=_act,
    closed_by=("fresh rewards", "separate verifier", "other user"),
    quick=True,
    bundle="environment",
)
