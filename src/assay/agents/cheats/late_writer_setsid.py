"""The writer has a session and a group of its own and is deaf to the signals that are usually sent."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._writers import LOOP, quoted
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, _: Knowledge) -> None:
    deaf = quoted("trap '' HUP INT QUIT TERM; " + LOOP)
    script = f"setsid nohup sh -c {deaf} > /dev/null 2>&1 < /dev/null & sleep 0.1"
    await attempt.shell(script, message="leave a writer in a session of its own")


CHEAT = Cheat(
    name="late-writer-setsid",
    exploits="Only the agent's process group or session is stopped, or it is asked to stop and may refuse.",
    incident="https://github.com/harbor-framework/terminal-bench/pull/1299",
    act=_act,
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    bundle="background",
)
