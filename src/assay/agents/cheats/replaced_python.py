"""Another `python`, earlier on the PATH or in the real one's place."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._programs import replace_programs
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    await replace_programs(attempt, knowledge, ("python3", "python"))


CHEAT = Cheat(
    name="replaced-python",
    exploits="The verifier runs the first python of a PATH with a folder that the agent may write, or one in a venv.",
    incident="https://github.com/benchflow-ai/benchflow/pull/144",
    act=_act,
    closed_by=("clean PATH", "programs restored", "other user", "separate verifier"),
    bundle="stand-ins",
)
