"""A path file whose line Python runs when it starts, in the folders of the user's own packages."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import plant
from ._payloads import TAKE_OVER_LINE
from ._places import start_folders
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await start_folders(attempt, knowledge)
    await plant(attempt, {f"{f}/zz-fast.pth": TAKE_OVER_LINE for f in folders}, message="plant a path file")


CHEAT = Cheat(
    name="planted-pth",
    exploits="The verifier starts Python with the agent's folders of packages, whose path files may hold code.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    act=_act,
    closed_by=("clean configuration", "clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
