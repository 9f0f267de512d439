"""A `conftest.py` that makes every report a pass, wherever pytest may look for one."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import plant
from ._payloads import PASS_HOOKS
from ._places import test_folders
from ._targets import needs_pytest
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await test_folders(attempt, knowledge)
    files = {f"{folder.rstrip('/')}/conftest.py": PASS_HOOKS for folder in folders}
    await plant(attempt, files, message="plant conftest.py")


CHEAT = Cheat(
    name="planted-conftest",
    exploits="pytest runs every conftest.py on the way to the tests, also one that the agent wrote.",
    incident="https://github.com/SWE-bench/SWE-bench/issues/631",
    act=_act,
    closed_by=("clean configuration", "separate verifier", "recorded test runner"),
    quick=True,
    bundle="pytest-hooks",
    applies=needs_pytest,
)
