"""A `sitecustomize.py`, which Python runs when it starts, in every folder where it may look for one."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import plant
from ._payloads import TAKE_OVER
from ._places import start_folders
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await start_folders(attempt, knowledge)
    await plant(attempt, {f"{f}/sitecustomize.py": TAKE_OVER for f in folders}, message="plant a start-up hook")


CHEAT = Cheat(
    name="planted-sitecustomize",
    exploits="The verifier starts Python with a folder of the agent's on its path, which runs a sitecustomize there.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    act=_act,
    closed_by=("clean configuration", "clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
